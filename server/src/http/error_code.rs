use hyper::StatusCode;
use serde::Serialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// Error code of an HTTP response, on the admin listener and for clients that use HTTP. The comments appear
/// in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, EnumMessage, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ApiErrorCode {
    /// The request is malformed; the message says why.
    BadRequest,
    /// The data is JSON that some clients cannot parse: it is nested more than 64 levels deep, or contains a
    /// number outside the range of a double or half of a surrogate pair.
    Malformed,
    /// The channel name is invalid, or the channel does not support this operation.
    BadChannel,
    /// The API key is missing or wrong, or the client has no valid token.
    Unauthorized,
    /// The scopes of the API key, the page's origin, the host name or the token do not allow this request.
    Forbidden,
    /// The resource does not exist, or no longer exists.
    NotFound,
    /// The path does not support this method. The `Allow` header lists the supported methods.
    MethodNotAllowed,
    /// The body did not arrive within `limits.handshake_timeout`.
    Timeout,
    /// The session has a newer poll or connection.
    Superseded,
    /// The session no longer exists. No part of the request was carried out.
    Gone,
    /// The body, or the data of a message, exceeds `limits.max_message`, or the request contains too many
    /// commands or messages.
    TooLarge,
    /// The path, the query and the headers together are longer than 16 KiB.
    HeadTooLarge,
    /// The body's media type is not supported, or the body is compressed.
    UnsupportedMediaType,
    /// This path requires a WebSocket upgrade.
    UpgradeRequired,
    /// The request would exceed the limit that the message names. The same request may succeed later.
    Limit,
    /// The engine that stores the channels cannot be reached. Nothing was done.
    Unavailable,
    /// The engine did not answer. The request may or may not have been carried out.
    OutcomeUnknown,
    /// The server is overloaded. Nothing was done.
    Overloaded,
    /// The server is shutting down.
    Draining,
}

impl ApiErrorCode {
    /// Status of a response with this code.
    #[must_use]
    pub const fn status(self) -> StatusCode {
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
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::UpgradeRequired => StatusCode::UPGRADE_REQUIRED,
            Self::Limit | Self::Unavailable | Self::OutcomeUnknown | Self::Overloaded | Self::Draining => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }
}
