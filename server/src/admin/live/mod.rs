//! What the dashboard is told: a sample a second, made once for all who watch, and those of the last quarter of an hour.
//!
//! ```text
//!   a task, each second ──▶ Feed (900 samples, the newest) ◀── Viewer, the body of an answer, takes the next piece
//! ```

mod about;
mod encoding;
mod feed;
mod history;
mod limits;
mod sample;
#[cfg(test)]
mod tests;
mod viewer;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::Context;
use crate::auth::Operator;
use crate::clock::UnixTime;
use about::About;
use feed::Feed;
use sample::Sample;

pub(crate) use limits::{Bounds, WebhookBound, limits};
pub(crate) use viewer::Viewer;

/// From one sample to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// The samples, and what viewers are told of the server.
#[derive(Debug)]
pub(crate) struct Live {
    feed: Arc<Feed>,
    pub(super) settings: Settings,
}

/// What stays as it is.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) started_at: UnixTime,
    pub(crate) bounds: Bounds,
}

impl Live {
    /// No sample yet.
    pub(crate) fn new(settings: Settings) -> Self {
        Self { feed: Arc::default(), settings }
    }
}

/// One more who watches; nothing, if the server drains.
pub(super) fn view(operator: &Operator, context: &Context) -> Option<Viewer> {
    let feed = &context.live.feed;
    let view = || feed.view(encoding::about(&About::to(operator, context)), &context.client.timeouts);
    (!context.stop.is_cancelled()).then(view)
}

/// Takes a sample each second until the server drains; then all who watch are sent away.
pub(crate) async fn run(context: Arc<Context>) {
    let (timeouts, feed) = (&context.client.timeouts, &context.live.feed);
    let mut next = timeouts.clock().now();
    while !context.stop.is_cancelled() {
        take(&context);
        // After a time without a turn, one sample is enough.
        next = (next + INTERVAL).max(timeouts.clock().now());
        let stop = pin!(context.stop.cancelled());
        if let Either::Left(_) = select(stop, timeouts.sleep_until(next)).await {
            break;
        }
    }
    feed.end();
}

fn take(context: &Context) {
    let feed = &context.live.feed;
    let kept = encoding::kept(&Sample::now(context));
    let event = encoding::event(&kept, &feed.rings());
    feed.add(kept, event);
}
