use encke_core::close::{CloseCode, SuspendReason};
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::ProtocolError;

use super::closing::Ending;

/// Classifies an error: the suspend reason for the session, and how to close the connection.
pub(super) fn classify(error: &Error) -> (SuspendReason, Ending) {
    let code = match error {
        Error::Capacity(_) => CloseCode::TooBig,
        Error::Utf8(_) => CloseCode::InvalidPayload,
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return CONNECTION_LOST,
        Error::Protocol(_) => CloseCode::BadFrame,
        _ => return CONNECTION_LOST,
    };
    (SuspendReason::BadFrame, Ending::Close(code))
}

/// The peer has disconnected.
pub(super) const CONNECTION_LOST: (SuspendReason, Ending) = (SuspendReason::ConnectionLost, Ending::Lost);
