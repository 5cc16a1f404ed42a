use hyper::StatusCode;
use serde::Serialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// What an answer of HTTP says is wrong, in a word: on the admin listener, and for clients that come by HTTP. The comments stand in the
/// README's reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, EnumMessage, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(crate) enum ApiErrorCode {
    /// The request is not what it should be; the message says what is wrong.
    BadRequest,
    /// The data is no JSON that a message can have.
    Malformed,
    /// Not the name of a channel, or of none that this can be done with.
    BadChannel,
    /// No key, or a wrong one; of a client, no valid token.
    Unauthorized,
    /// The key's scopes, the page's origin, the name of the host or the token does not allow it.
    Forbidden,
    /// There is no such thing, or not any more.
    NotFound,
    /// The path takes other methods, which `Allow` names.
    MethodNotAllowed,
    /// The body did not arrive within `limits.handshake_timeout`.
    Timeout,
    /// Another poll of the session has come since.
    Superseded,
    /// The session is gone, and nothing of the request was done.
    Gone,
    /// The body, or the data of a message, is longer than `limits.max_message` allows; or there are too many commands or messages in one request.
    TooLarge,
    /// The body is of another type than is read here.
    UnsupportedMediaType,
    /// Here a request becomes a WebSocket.
    UpgradeRequired,
    /// It would exceed a limit, which the message names; later it may not.
    Limit,
    /// The engine, where channels live, cannot be reached: nothing was done.
    Unavailable,
    /// No answer came from there: it may have been done, or not.
    OutcomeUnknown,
    /// Too much is being done already; nothing was done.
    Overloaded,
    /// The server is going away.
    Draining,
}

impl ApiErrorCode {
    /// The status of an answer with it.
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::Malformed | Self::BadChannel => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Superseded => StatusCode::CONFLICT,
            Self::Gone => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::UpgradeRequired => StatusCode::UPGRADE_REQUIRED,
            Self::Limit | Self::Unavailable | Self::OutcomeUnknown | Self::Overloaded | Self::Draining => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }
}
