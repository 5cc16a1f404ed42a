use encke_core::close::{CloseCode, SuspendReason};
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use super::goodbye::Ending;

/// What a failed connection means: for the session, and for what is still to be said on the socket.
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

/// The connection is gone, and there is no one to tell.
pub(super) const LOST: (SuspendReason, Ending) = (SuspendReason::ConnectionLost, Ending::Lost);
