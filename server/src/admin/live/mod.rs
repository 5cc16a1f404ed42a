//! Data for the dashboard: a sample every second, taken once for all viewers, and the samples of the last 15
//! minutes.
//!
//! ```text
//!   a task, every second ──▶ Feed (900 samples, the newest) ◀── a response body that pulls the next piece
//! ```

mod encoding;
mod feed;
mod history;
mod limits;
mod sample;
mod server_info;
mod state;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::{Either, select};

use super::context::Context;
use crate::auth::Operator;
use sample::Sample;
use server_info::server_info;

pub(crate) use limits::limits;
pub(crate) use state::{LimitSettings, Live, LiveSettings, WebhookLimit};

/// Time between samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Returns the stream for a viewer, or `None` if the server is draining.
pub(super) fn view(
    operator: &Operator,
    context: &Context,
) -> Option<impl Stream<Item = Bytes> + Send + use<> + 'static> {
    if context.stop.is_cancelled() {
        return None;
    }
    let about = encoding::server_event(&server_info(operator, context));
    Some(context.live.feed.view(about, &context.client.timeouts))
}

/// Takes a sample every second until the server drains, then ends the streams of all viewers.
pub(crate) async fn run(context: Arc<Context>) {
    let (timeouts, feed) = (&context.client.timeouts, &context.live.feed);
    let mut next = timeouts.clock().now();
    while !context.stop.is_cancelled() {
        let kept = encoding::encode_sample(&Sample::now(&context));
        let event = encoding::sample_event(&kept, &feed.rings());
        feed.add(kept, event);
        // After a period in which the server did not run, take only one sample.
        next = (next + INTERVAL).max(timeouts.clock().now());
        let stop = pin!(context.stop.cancelled());
        if let Either::Left(_) = select(stop, timeouts.sleep_until(next)).await {
            break;
        }
    }
    feed.end();
}
