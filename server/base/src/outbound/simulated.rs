//! A simulated server, which answers requests without a network.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use encke_timeouts::Timeouts;
use hyper::StatusCode;
use hyper::header::HeaderMap;

use super::client::{OutboundError, OutboundResponse};
use super::target::Target;

/// Response of a simulated server.
#[derive(Debug)]
pub struct SimulatedResponse {
    /// Time until the response arrives.
    pub after: Duration,
    /// Status and body. `None` if the connection breaks instead.
    pub content: Option<(u16, String)>,
    /// Dropped with the request, when it has been answered or given up.
    pub guard: Box<dyn Any + Send>,
}

type Respond = dyn Fn(&str, &[u8]) -> SimulatedResponse + Send + Sync;

/// Responds to the path and the body of each request.
#[derive(Clone)]
pub struct SimulatedTarget(Arc<Respond>);

impl SimulatedTarget {
    #[must_use]
    pub fn new(respond: impl Fn(&str, &[u8]) -> SimulatedResponse + Send + Sync + 'static) -> Self {
        Self(Arc::new(respond))
    }

    pub(super) async fn send(
        &self,
        target: &Target,
        body: Bytes,
        timeouts: &Arc<Timeouts>,
    ) -> Result<OutboundResponse, OutboundError> {
        let SimulatedResponse { after, content, guard: _guard } = (self.0)(target.uri().path(), &body);
        if after > Duration::ZERO {
            timeouts.sleep(after).await;
        }
        let broken = || OutboundError::Unreachable("the connection was closed".to_owned());
        let (status, body) = content.ok_or_else(broken)?;
        let status = StatusCode::from_u16(status).expect("a valid status");
        Ok(OutboundResponse { status, headers: HeaderMap::new(), body: body.into() })
    }
}

impl fmt::Debug for SimulatedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedTarget").finish_non_exhaustive()
    }
}
