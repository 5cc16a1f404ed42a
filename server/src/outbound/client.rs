use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, iter};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use super::Target;
use crate::timeouts::{Timeouts, WheelTimer};
use crate::tls::{TlsError, VERSIONS, authorities};

/// Connections that are kept for the next request, each for so long. Servers close what is idle for a minute or so.
const IDLE_AT_MOST: Duration = Duration::from_secs(30);

const AGENT: HeaderValue = HeaderValue::from_static(concat!("encke/", env!("CARGO_PKG_VERSION")));

/// Whose certificates count.
#[derive(Clone)]
pub(crate) struct Trust(ClientConfig);

/// Makes requests, and keeps connections between them.
#[derive(Clone)]
pub(crate) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeouts: Arc<Timeouts>,
    /// The longest answer that is read, in bytes.
    longest_answer: usize,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    /// It has said how long it is. What ends with its connection may be part of something.
    pub(crate) is_whole: bool,
}

/// Nothing came back that can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutboundError {
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("{0}")]
    Unreachable(String),
    #[error("it answered {status}, and the answer broke off, or is longer than {limit} bytes")]
    Unreadable { status: StatusCode, limit: usize },
}

impl Trust {
    /// The authorities in `ca` alone, or else those of this machine; without TLS nobody's. `setting` is the one that names the file.
    ///
    /// # Errors
    /// [`TlsError`].
    pub(crate) fn load(has_tls: bool, setting: &'static str, ca: Option<&Path>) -> Result<Self, TlsError> {
        let roots = if has_tls { authorities(setting, ca)? } else { RootCertStore::empty() };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&VERSIONS)
            .map_err(|error| TlsError::new(setting, error))?;
        Ok(Self(config.with_root_certificates(roots).with_no_client_auth()))
    }
}

impl Client {
    /// A client that keeps at most so many idle connections to a server, and reads answers of at most so many bytes.
    pub(crate) fn new(
        trust: Trust,
        timeouts: Arc<Timeouts>,
        idle_connections: usize,
        longest_answer: usize,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // It would wait on a timer of the runtime. One address is tried after the other.
        tcp.set_happy_eyeballs_timeout(None);
        let connector = HttpsConnectorBuilder::new().with_tls_config(trust.0).https_or_http().enable_http1();
        let timer = WheelTimer(Arc::clone(&timeouts));
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(timer.clone())
            .pool_timer(timer)
            .pool_idle_timeout(IDLE_AT_MOST)
            .pool_max_idle_per_host(idle_connections)
            .build(connector.wrap_connector(tcp));
        Self { http, timeouts, longest_answer }
    }

    /// Posts this body. The whole answer, whatever its status, must be there within `timeout`.
    ///
    /// # Errors
    /// [`OutboundError`].
    pub(crate) async fn post(
        &self,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Reply, OutboundError> {
        self.send(Method::POST, target, headers, body, timeout).await
    }

    /// Gets what is there. The same holds as for [`Self::post`].
    ///
    /// # Errors
    /// [`OutboundError`].
    pub(crate) async fn get(&self, target: &Target, timeout: Duration) -> Result<Reply, OutboundError> {
        self.send(Method::GET, target, HeaderMap::new(), Bytes::new(), timeout).await
    }

    async fn send(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Reply, OutboundError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = target.uri().clone();
        *request.headers_mut() = headers;
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        let exchange = async {
            let answer = self.http.request(request).await;
            let (head, body) =
                answer.map_err(|error| OutboundError::Unreachable(described(&error)))?.into_parts();
            let limit = self.longest_answer;
            // Only a connection whose answer was read to its end can take the next request.
            let body = Limited::new(body, limit).collect().await;
            let body = body.map_err(|_| OutboundError::Unreadable { status: head.status, limit })?;
            let says_length =
                [CONTENT_LENGTH, TRANSFER_ENCODING].iter().any(|name| head.headers.contains_key(name));
            let is_whole = says_length || head.status == StatusCode::NO_CONTENT;
            Ok(Reply { status: head.status, body: body.to_bytes(), is_whole })
        };
        self.timeouts.within(timeout, exchange).await.unwrap_or(Err(OutboundError::TimedOut(timeout)))
    }
}

/// What went wrong, and why: hyper's own words name the kind alone.
fn described(error: &legacy::Error) -> String {
    let causes = iter::successors(error.source(), |error: &&(dyn Error + 'static)| (**error).source());
    causes.last().map_or_else(|| error.to_string(), ToString::to_string)
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
