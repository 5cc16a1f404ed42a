//! Requests that get no usable response.

use encke_base::outbound::{OutboundError, OutboundResponse};
use hyper::StatusCode;
use hyper::header::LOCATION;

use super::excerpt::excerpt;
use super::hook::HookError;
use super::malformed::MalformedResponse;

/// Why a request got no usable response.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookFailure {
    #[error(transparent)]
    Outbound(OutboundError),
    #[error("the backend answered {0}")]
    Status(StatusCode),
    #[error("the backend answered {status}: the redirect to {location} is not followed")]
    Redirect { status: StatusCode, location: String },
    #[error(transparent)]
    Malformed(MalformedResponse),
}

impl HookFailure {
    /// Failure of a response whose status states no decision.
    pub(super) fn of_status(reply: &OutboundResponse) -> Self {
        let status = reply.status;
        let location = reply.headers.get(LOCATION).filter(|_| status.is_redirection());
        match location.and_then(|location| location.to_str().ok()) {
            Some(location) => {
                // The query may contain a secret.
                let path = location.split(['?', '#']).next().unwrap_or_default();
                Self::Redirect { status, location: excerpt(path.as_bytes()) }
            }
            None => Self::Status(status),
        }
    }

    /// Returns the error for the client.
    pub(super) fn error(&self) -> HookError {
        match self {
            Self::Outbound(OutboundError::TimedOut(_)) => HookError::TimedOut,
            Self::Malformed(_) => HookError::Invalid,
            Self::Outbound(_) | Self::Status(_) | Self::Redirect { .. } => HookError::Unavailable,
        }
    }
}

/// Whether the backend refuses a request by answering with this status, as many frameworks do. A proxy in front of the
/// backend answers 404 and 405 while the backend is being deployed, as does a server at a wrong URL; 408, 425 and 429
/// ask the server to try again.
pub(super) fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status.as_u16(), 404 | 405 | 408 | 425 | 429)
}
