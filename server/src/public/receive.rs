use std::net::IpAddr;
use std::pin::pin;

use bytes::Bytes;
use futures_util::future::{Either, select};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use crate::client::{Context, Sender};
use crate::http::body::{self, BodyLimits};
use crate::http::{ApiError, ApiErrorCode};

/// Reads a body, which counts with the messages that are not whole yet.
pub(super) async fn read(
    body: Incoming,
    limits: BodyLimits,
    address: IpAddr,
    context: &Context,
) -> Result<Bytes, ApiError> {
    let cut = CancellationToken::new();
    let now = || context.timeouts.clock().now();
    let account = context.unfinished.begin(Sender::Request(cut.clone()), address, now());
    let grown = |bytes| context.account(&account, bytes, now());
    let read = pin!(body::read(body, limits, &context.timeouts, grown));
    match select(read, pin!(cut.cancelled())).await {
        Either::Left((body, _)) => body,
        Either::Right(_) => {
            Err(ApiError::new(ApiErrorCode::Overloaded, "too much is being received (limits.receive_total)"))
        }
    }
}
