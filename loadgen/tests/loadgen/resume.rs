//! Tests of `resume`, which drops connections while messages are published.

use serde_json::Value;

use crate::fake_channel::{ChannelFault, FakeChannel};
use crate::run::loadgen;

async fn resume(fault: ChannelFault, options: &str) -> Value {
    let server = FakeChannel::start(fault).await;
    let run = format!(
        "resume {} --connections 10 --messages 100 --publish-rate 100 --grace 1s --cuts 3 --away 200ms \
         --json - {options}",
        server.url()
    );
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    ended.json()
}

fn counts<const N: usize>(json: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| json[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {json:#}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_in_time_loses_nothing() {
    let json = resume(ChannelFault::None, "").await;
    assert_eq!(counts(&json, ["cut", "resumed", "early", "refused"]), [30, 30, 0, 0], "{json:#}");
    let messages = ["expected", "received", "lost", "duplicated", "misordered", "gaps"];
    assert_eq!(counts(&json, messages), [1000, 1000, 0, 0, 0, 0], "{json:#}");
    assert_eq!(json["unexpected_closes"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_too_late_is_refused_and_does_not_count() {
    let json = resume(ChannelFault::None, "--outside 0.3 --margin 200ms").await;
    assert_eq!(
        counts(&json, ["cut", "resumed", "early", "refused", "overdue"]),
        [24, 21, 0, 3, 0],
        "{json:#}"
    );
    assert_eq!(counts(&json, ["subscribed", "expected", "lost", "duplicated"]), [10, 700, 0, 0], "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_does_not_end_is_overdue() {
    let json = resume(ChannelFault::NeverExpire, "--outside 0.3 --margin 200ms").await;
    assert_eq!(counts(&json, ["refused", "overdue"]), [0, 3], "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_is_early() {
    let json = resume(ChannelFault::Forget, "").await;
    assert_eq!(counts(&json, ["resumed", "early"]), [0, 30], "{json:#}");
    assert!(json["lost"].as_u64().is_some_and(|lost| lost > 0), "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_repeats_itself_doubles() {
    let json = resume(ChannelFault::Repeat, "").await;
    assert_eq!(counts(&json, ["resumed", "lost"]), [30, 0], "{json:#}");
    assert!(json["duplicated"].as_u64().is_some_and(|doubled| doubled > 0), "{json:#}");
}
