//! Subscribers of a channel and a publisher, shared by the scenarios that publish messages.

mod ledger;
mod numbering;
mod publisher;
mod round;
mod schedule;
mod subscribers;
mod tally;

use std::time::Duration;

use tokio::time::{Instant, interval, sleep};

pub(super) use self::ledger::{Arrival, Ledger};
pub(super) use self::numbering::Numbering;
pub(super) use self::publisher::{ChannelPublisher, admin_client};
pub(super) use self::round::PublishRound;
pub(super) use self::schedule::{LEAD, Recognized, Schedule};
pub(super) use self::subscribers::{Subscriber, SubscriberGroup};

/// How often to check whether everything has arrived.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// How long to keep reading after everything has arrived: duplicates arrive late.
const SETTLE: Duration = Duration::from_millis(200);

/// Returns when everything is done after `last_due`, or when `progress` has not changed for the grace period.
pub(super) async fn wait_for_end(
    last_due: Instant,
    grace: Duration,
    progress: impl Fn() -> u64,
    is_done: impl Fn() -> bool,
) {
    let mut check = interval(CHECK_INTERVAL);
    let (mut last_progress, mut since) = (0, Instant::now());
    loop {
        let (now, progress) = (check.tick().await, progress());
        if progress != last_progress {
            (last_progress, since) = (progress, now);
        }
        if now >= last_due && is_done() {
            return sleep(SETTLE).await;
        }
        if now >= since.max(last_due) + grace {
            return;
        }
    }
}
