use encke_core::close::{CloseCode, SuspendReason};
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use super::goodbye::Ending;

/// What a failed connection means for the session, and how it is closed.
pub(super) fn judge(error: &Error) -> (SuspendReason, Ending) {
    let code = match error {
        Error::Capacity(_) => CloseCode::TooBig,
        Error::Utf8(_) => CloseCode::InvalidPayload,
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return LOST,
        Error::Protocol(_) => CloseCode::BadFrame,
        _ => return LOST,
    };
    (SuspendReason::BadFrame, Ending::Close(code))
}

/// The connection is gone.
pub(super) const LOST: (SuspendReason, Ending) = (SuspendReason::ConnectionLost, Ending::Lost);
