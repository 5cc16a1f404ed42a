//! Requests that get no usable response.

use encke_base::outbound::{OutboundError, OutboundResponse, excerpt};
use hyper::StatusCode;
use hyper::header::LOCATION;

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
    /// Creates the failure for a response whose status neither approves nor refuses the request.
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
            Self::Malformed(malformed) => HookError::Invalid { problem: malformed.to_string() },
            Self::Outbound(_) | Self::Status(_) | Self::Redirect { .. } => HookError::Unavailable,
        }
    }
}

/// Whether a response with this status refuses the request. Many frameworks express a refusal as a 4xx status. The
/// exceptions are 404 and 405, which a proxy sends while the backend is being deployed, or a server at a wrong URL, and
/// 408, 425 and 429, which ask the client to try again later.
pub(super) fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status.as_u16(), 404 | 405 | 408 | 425 | 429)
}
