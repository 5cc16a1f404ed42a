//! Requests that may open a session: what they say is read as it is read where the session is given.

use encke_core::dialect::DialectName;
use hyper::header::{HeaderMap, UPGRADE};
use hyper::{Method, Request};

use super::events;
use super::query::{Query, parse_query};
use crate::client::{Caller, ClientSettings, Coming};
use crate::session::Transport;
use crate::transport::websocket::Wanted;

/// What a client wants.
pub(super) struct WantsSession {
    transport: Transport,
    token: Option<String>,
    resume: Option<String>,
    seq: Option<u64>,
    /// Nothing but the session that it comes back to.
    only_resume: bool,
}

impl WantsSession {
    /// Nothing, if the request opens no session, or is refused for what it says. One of Bayeux opens them by messages.
    pub(super) fn read<B>(request: &Request<B>, settings: &ClientSettings) -> Option<Self> {
        if request.method() != Method::GET {
            return None;
        }
        match request.uri().path() {
            "/ws" if request.headers().contains_key(UPGRADE) => {
                let Wanted { resume, seq, token, .. } =
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

    /// That of its query.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// What there is to know of the client that wants it.
    pub(super) fn coming<'a>(&'a self, caller: &'a Caller, headers: &'a HeaderMap) -> Coming<'a> {
        Coming {
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
