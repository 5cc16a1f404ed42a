//! Requests that may open a session. Their parameters are read in the same way as when the session is opened.

use encke_core::dialect::DialectName;
use hyper::header::{HeaderMap, UPGRADE};
use hyper::{Method, Request};

use super::events;
use super::query::{Query, parse_query};
use crate::client::{Caller, ClientSettings, ConnectAttempt};
use crate::session::Transport;
use crate::transport::websocket::ConnectParams;

/// A request for a session.
pub(super) struct SessionRequest {
    transport: Transport,
    token: Option<String>,
    resume: Option<String>,
    seq: Option<u64>,
    /// Whether the client accepts only the session that it asks to resume.
    only_resume: bool,
}

impl SessionRequest {
    /// Reads a request. Returns `None` if the request is invalid or opens no session. Bayeux clients open
    /// sessions with messages instead.
    pub(super) fn read<B>(request: &Request<B>, settings: &ClientSettings) -> Option<Self> {
        if request.method() != Method::GET {
            return None;
        }
        match request.uri().path() {
            "/ws" if request.headers().contains_key(UPGRADE) => {
                let ConnectParams { resume, seq, token, .. } =
                    parse_query(request.uri().query().unwrap_or_default())?;
                Some(Self { transport: Transport::WebSocket, token, resume, seq, only_resume: false })
            }
            "/events" => {
                let query = events::query(request, settings).ok()?;
                let only_resume = query.channels.is_empty();
                Some(Self::of_query(Transport::Events, query, only_resume))
            }
            "/poll" => {
                let query = Query::read(request, settings).ok()?;
                Some(Self::of_query(Transport::Poll, query, false))
            }
            _ => None,
        }
    }

    fn of_query(transport: Transport, query: Query, only_resume: bool) -> Self {
        let Query { resume, seq, token, .. } = query;
        Self { transport, token, resume, seq, only_resume }
    }

    /// Token in the query.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the data that is needed to authenticate the client.
    pub(super) fn connect_attempt<'a>(
        &'a self,
        caller: &'a Caller,
        headers: &'a HeaderMap,
    ) -> ConnectAttempt<'a> {
        ConnectAttempt {
            caller,
            headers,
            token: self.token.as_deref(),
            resume: self.resume.as_deref().map(|token| (token, self.seq)),
            only_resume: self.only_resume,
            transport: self.transport,
            dialect: DialectName::Json,
        }
    }
}
