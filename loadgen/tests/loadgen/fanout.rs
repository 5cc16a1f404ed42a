//! Tests of `fanout`, which publishes to all subscribers, and reports whether each message arrived.

use serde_json::{Value, json};

use crate::fake_channel::{ChannelFault, FakeChannel};
use crate::run::{loadgen, number};

/// Publishes 20 messages in 200 ms to 10 subscribers.
async fn fanout(server: &FakeChannel, options: &str) -> Value {
    fanout_at(100, server, options).await
}

/// Publishes at this rate, in messages per second.
async fn fanout_at(rate: u32, server: &FakeChannel, options: &str) -> Value {
    let run = format!(
        "fanout {} --connections 10 --messages 20 --publish-rate {rate} --grace 400ms --json - {options}",
        server.url()
    );
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    ended.json()
}

/// Returns what a run with this misbehaviour reports: received, lost, duplicated and misordered messages,
/// gaps, and messages covered by gaps.
async fn report_of(fault: ChannelFault) -> [u64; 6] {
    let server = FakeChannel::start(fault).await;
    let json = fanout(&server, "").await;
    assert_eq!(json["subscribed"], 10);
    assert_eq!(json["expected"], 200);
    assert_eq!(json["errors"], 0);
    ["received", "lost", "duplicated", "misordered", "gaps", "gap_messages"]
        .map(|name| json[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {json:#}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_arrives_once_and_in_order() {
    let server = FakeChannel::start(ChannelFault::None).await;
    let json = fanout(&server, "--size 100 --assert lost==0 --assert latency_ms.p99<60000").await;
    for (field, expected) in [
        ("channel", json!("loadgen")),
        ("publisher", json!("ws")),
        ("messages", json!(20)),
        ("size", json!(100)),
        ("cut_after_seconds", Value::Null),
        ("connected", json!(10)),
        ("subscribed", json!(10)),
        ("published", json!(20)),
        ("expected", json!(200)),
        ("received", json!(200)),
        ("lost", json!(0)),
        ("duplicated", json!(0)),
        ("misordered", json!(0)),
        ("foreign", json!(0)),
        ("gaps", json!(0)),
        ("dropped", json!(0)),
        ("errors", json!(0)),
        ("unexpected_closes", json!(0)),
    ] {
        assert_eq!(json[field], expected, "{field} in {json:#}");
    }
    let [p50, p99, max] = ["p50", "p99", "max"].map(|name| number(&json, &format!("/latency_ms/{name}")));
    assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{json:#}");
    assert!(number(&json, "/delivery_latency_ms/max") <= max * 1.001, "the last delivery is the slowest");
    let rate = number(&json, "/deliveries_per_second");
    assert!(rate <= 200.0 / 0.190, "19 gaps of 10 ms: {json:#}");
    assert!(server.log().iter().all(|data| data.len() == 100), "{:?}", server.log());
    assert_eq!(server.acks(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_message_is_reported() {
    assert_eq!(report_of(ChannelFault::Lose(7)).await, [199, 1, 0, 0, 0, 0]);
    assert_eq!(report_of(ChannelFault::Lose(19)).await, [199, 1, 0, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicated_message_is_reported() {
    assert_eq!(report_of(ChannelFault::Double(7)).await, [200, 0, 1, 0, 0, 0]);
    assert_eq!(report_of(ChannelFault::Double(19)).await, [200, 0, 1, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn swapped_messages_are_reported() {
    assert_eq!(report_of(ChannelFault::Swap(7)).await, [200, 0, 0, 1, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn gaps_and_their_messages_are_reported() {
    assert_eq!(report_of(ChannelFault::Gap(7)).await, [198, 2, 0, 0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_subscribers_resume_without_loss() {
    let server = FakeChannel::start(ChannelFault::None).await;
    let json = fanout(&server, "--cut-after 100ms").await;
    for (field, expected) in [("dropped", 10), ("resumed", 10), ("not_recovered", 0), ("received", 200)] {
        assert_eq!(json[field], expected, "{field} in {json:#}");
    }
    for field in ["lost", "duplicated", "misordered", "errors", "unexpected_closes"] {
        assert_eq!(json[field], 0, "{field} in {json:#}");
    }
    assert!(number(&json, "/all_back_seconds") > 0.0);
    assert!(number(&json, "/resume_ms/max") > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_after_the_last_message_still_happens() {
    let server = FakeChannel::start(ChannelFault::None).await;
    let json = fanout(&server, "--cut-after 500ms").await;
    assert_eq!(json["resumed"], 10);
    assert_eq!(json["received"], 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_loses_messages() {
    let server = FakeChannel::start(ChannelFault::Forget).await;
    let json = fanout(&server, "--cut-after 100ms").await;
    assert_eq!(json["not_recovered"], 10);
    assert_eq!(json["error_kinds"], json!({"not_recovered": 10}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_repeats_itself_doubles_messages() {
    let server = FakeChannel::start(ChannelFault::Repeat).await;
    // Publish over two seconds, so that the cut falls between messages even on a busy machine.
    let json = fanout_at(10, &server, "--cut-after 1s").await;
    assert_eq!(json["received"], 200);
    let doubled = number(&json, "/duplicated");
    assert!((1.0..200.0).contains(&doubled), "some are duplicated: {json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ack_every_acknowledges_every_nth_message() {
    let server = FakeChannel::start(ChannelFault::None).await;
    let json = fanout(&server, "--ack-every 6").await;
    assert_eq!(json["received"], 200);
    assert_eq!(server.acks(), 30, "after messages 6, 12 and 18 of 20");
}

#[tokio::test(flavor = "multi_thread")]
async fn publishes_by_the_admin_api() {
    let server = FakeChannel::start(ChannelFault::None).await;
    let options = format!("--publisher admin --admin {} --api-key k1", server.admin_url());
    let json = fanout(&server, &options).await;
    assert_eq!(json["published"], 20);
    assert_eq!(json["received"], 200);
    let calls = server.calls();
    assert_eq!(calls.len(), 20);
    for part in ["post /api/publish http/1.1", "content-type: application/json", "authorization: bearer k1"] {
        assert!(calls[0].contains(part), "{part} in {}", calls[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_publishes_are_errors_and_lost() {
    let server = FakeChannel::start(ChannelFault::RefusePublications).await;
    let json = fanout(&server, "").await;
    assert_eq!(json["error_kinds"], json!({"publish_forbidden": 20}));
    assert_eq!((&json["published"], &json["lost"]), (&json!(0), &json!(200)));
    let json = fanout(&server, &format!("--publisher admin --admin {}", server.admin_url())).await;
    assert_eq!(json["error_kinds"], json!({"publish_http_503": 20}));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_subscription_gives_1_and_a_report() {
    let server = FakeChannel::start(ChannelFault::RefuseSubscriptions).await;
    let run = format!("fanout {} --connections 10 --assert lost==0 --json -", server.url());
    let ended = loadgen(&run).await;
    ended.assert_code(1);
    let json = ended.json();
    assert_eq!(json["error_kinds"], json!({"subscribe_forbidden": 10}));
    assert!(server.log().is_empty(), "nothing is published without subscribers");
    assert_eq!((&json["connected"], &json["subscribed"]), (&json!(10), &json!(0)));
}
