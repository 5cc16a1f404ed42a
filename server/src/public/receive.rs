use std::net::IpAddr;
use std::pin::pin;

use bytes::Bytes;
use futures_util::future::{Either, select};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use crate::client::{PartialMessageSender, Services};
use crate::http::body::{self, BodyLimits};
use crate::http::{ApiError, ApiErrorCode};

/// Reads a body. Its bytes count towards the memory limit of partial messages.
pub(super) async fn read(
    body: Incoming,
    limits: BodyLimits,
    address: IpAddr,
    services: &Services,
) -> Result<Bytes, ApiError> {
    let evicted = CancellationToken::new();
    let now = || services.timeouts.clock().now();
    let account = services.limits.partial_messages.begin(
        PartialMessageSender::Request(evicted.clone()),
        address,
        now(),
    );
    let grown = |bytes| services.account_partial_message(&account, bytes, now());
    let read = pin!(body::read(body, limits, &services.timeouts, grown));
    match select(read, pin!(evicted.cancelled())).await {
        Either::Left((body, _)) => body,
        Either::Right(_) => Err(ApiError::new(
            ApiErrorCode::Overloaded,
            "too much input is being received (limits.receive_total)",
        )),
    }
}
