use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, iter};

use bytes::Bytes;
use encke_timeouts::{Timeouts, WheelTimer};
use encke_tls::{TlsError, authorities, trusting};
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};

#[cfg(feature = "simulation")]
use super::simulated::SimulatedTarget;
use super::target::Target;

/// How long an idle connection is kept for the next request. Many servers close idle connections after about
/// a minute.
const MAX_IDLE: Duration = Duration::from_secs(30);

const AGENT: HeaderValue = HeaderValue::from_static(concat!("encke/", env!("CARGO_PKG_VERSION")));

/// Trusted certificate authorities.
#[derive(Clone)]
pub struct Trust(ClientConfig);

/// HTTP client with a pool of connections.
#[derive(Clone)]
pub struct OutboundClient {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeouts: Arc<Timeouts>,
    /// Maximum size of a response body, in bytes.
    max_response_bytes: usize,
    #[cfg(feature = "simulation")]
    simulated: Option<SimulatedTarget>,
}

/// Response to a request.
#[derive(Debug)]
pub struct OutboundResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why a request got no readable response.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("{0}")]
    Unreachable(String),
    #[error("the answer with status {status} is truncated, or longer than {limit} bytes")]
    Unreadable { status: StatusCode, limit: usize },
}

impl Trust {
    /// Loads the authorities in `ca`, or the system's if `ca` is `None`. Without TLS, no authorities are
    /// loaded. `setting` is the configuration key that names the file.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(has_tls: bool, setting: &'static str, ca: Option<&Path>) -> Result<Self, TlsError> {
        let roots = if has_tls { authorities(setting, ca)? } else { RootCertStore::empty() };
        Ok(Self(trusting(roots).with_no_client_auth()))
    }
}

impl OutboundClient {
    /// Creates a client that keeps at most `idle_connections` idle connections per server, and reads response
    /// bodies of at most `max_response_bytes` bytes.
    pub fn new(
        trust: Trust,
        timeouts: Arc<Timeouts>,
        idle_connections: usize,
        max_response_bytes: usize,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Happy Eyeballs would use a timer of the runtime. Without it, addresses are tried one after the
        // other.
        tcp.set_happy_eyeballs_timeout(None);
        let connector = HttpsConnectorBuilder::new().with_tls_config(trust.0).https_or_http().enable_http1();
        let timer = WheelTimer(Arc::clone(&timeouts));
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(timer.clone())
            .pool_timer(timer)
            .pool_idle_timeout(MAX_IDLE)
            .pool_max_idle_per_host(idle_connections)
            .build(connector.wrap_connector(tcp));
        Self {
            http,
            timeouts,
            max_response_bytes,
            #[cfg(feature = "simulation")]
            simulated: None,
        }
    }

    /// Lets `target` answer all requests.
    #[cfg(feature = "simulation")]
    pub fn simulate(&mut self, target: SimulatedTarget) {
        self.simulated = Some(target);
    }

    /// Sends a POST request. The complete response must arrive within `timeout`. Every status counts as a
    /// response.
    ///
    /// # Errors
    /// [`OutboundError`].
    pub async fn post(
        &self,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<OutboundResponse, OutboundError> {
        self.send(Method::POST, target, headers, body, timeout).await
    }

    /// Sends a GET request, with the same conditions as [`Self::post`].
    ///
    /// # Errors
    /// [`OutboundError`].
    pub async fn get(&self, target: &Target, timeout: Duration) -> Result<OutboundResponse, OutboundError> {
        self.send(Method::GET, target, HeaderMap::new(), Bytes::new(), timeout).await
    }

    async fn send(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<OutboundResponse, OutboundError> {
        let exchange = async {
            #[cfg(feature = "simulation")]
            if let Some(simulated) = &self.simulated {
                return simulated.send(target, body, &self.timeouts).await;
            }
            let mut request = Request::new(Full::new(body));
            *request.method_mut() = method;
            *request.uri_mut() = target.uri().clone();
            *request.headers_mut() = headers;
            request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
            let answer = self.http.request(request).await;
            let (head, body) =
                answer.map_err(|error| OutboundError::Unreachable(root_cause(&error)))?.into_parts();
            let limit = self.max_response_bytes;
            // A connection can be reused only if its response was read to the end.
            let body = Limited::new(body, limit).collect().await;
            let body = body.map_err(|_| OutboundError::Unreadable { status: head.status, limit })?;
            Ok(OutboundResponse { status: head.status, headers: head.headers, body: body.to_bytes() })
        };
        self.timeouts.within(timeout, exchange).await.unwrap_or(Err(OutboundError::TimedOut(timeout)))
    }
}

/// Returns the root cause of an error: hyper's own message names only the kind.
fn root_cause(error: &legacy::Error) -> String {
    let causes = iter::successors(error.source(), |error: &&(dyn Error + 'static)| (**error).source());
    let Some(cause) = causes.last() else { return error.to_string() };
    match cause.downcast_ref() {
        Some(rustls::Error::InvalidMessage(_)) => {
            "the answer is not TLS; should the URL begin with http://?".to_owned()
        }
        _ => cause.to_string(),
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl fmt::Debug for OutboundClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundClient").finish_non_exhaustive()
    }
}
