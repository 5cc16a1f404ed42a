//! Tests of `slow`, which does not read on some connections, while the others do.

use serde_json::Value;

use crate::fake_channel::{ChannelFault, FakeChannel};
use crate::run::loadgen;

/// Runs 10 subscribers, 2 of them slow. Each should receive 9 MB within a second.
async fn slow(fault: ChannelFault, options: &str) -> Value {
    let server = FakeChannel::start(fault).await;
    let run = format!(
        "slow {} --connections 10 --messages 150 --publish-rate 200 --size 60000 --share 0.2 \
         --slow-for 4s --grace 5s --json - {options}",
        server.url()
    );
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["slow"], 2);
    assert_eq!(json["expected"], 1200, "the slow subscribers do not count");
    assert_eq!(json["lost"], 0, "{json:#}");
    json
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_connections_are_closed_and_delay_no_other() {
    let json = slow(ChannelFault::DisconnectSlow, "").await;
    assert_eq!(json["closed"], 2, "{json:#}");
    assert_eq!(json["still_open"], 0);
    assert_eq!(json["unexpected_closes"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_connections_are_counted_separately() {
    let json = slow(ChannelFault::None, "").await;
    assert_eq!(json["closed"], 0, "{json:#}");
    assert_eq!(json["still_open"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_are_closed_too() {
    let json = slow(ChannelFault::DisconnectSlow, "--read-rate 1000").await;
    assert_eq!(json["closed"], 2, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_may_be_slow() {
    let server = FakeChannel::start(ChannelFault::DisconnectSlow).await;
    let run = format!(
        "slow {} --connections 4 --messages 150 --publish-rate 200 --size 60000 --share 1 --slow-for 4s \
         --grace 5s --json -",
        server.url()
    );
    let json = loadgen(&run).await.json();
    assert_eq!((&json["published"], &json["expected"]), (&150.into(), &0.into()), "{json:#}");
    assert_eq!((&json["slow"], &json["closed"]), (&4.into(), &4.into()), "{json:#}");
}
