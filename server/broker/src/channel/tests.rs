use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::metrics::Metrics;
use encke_base::quota::QuotaOwner;
use encke_core::message::CompactJson;
use encke_core::session::outbox::{LogBounds, LogPosition, SubscriptionSlot};
use encke_timeouts::Timeouts;
use encke_timeouts::clock::Clock;
use tokio::runtime::{Builder, Runtime};

use super::*;

const WIDE: LogLimits =
    LogLimits { messages: 1000, bytes: 1 << 20, age: None, total_bytes: usize::MAX, kept_positions: 0 };

/// Subscriber type without instances, for channels without subscribers.
#[derive(Clone, Copy, Debug)]
enum NoSubscriber {}

impl Subscriber for NoSubscriber {
    type Registry = ();

    fn exists(&self, (): &()) -> bool {
        match *self {}
    }

    fn notify_readable(&self, (): &(), _: SubscriptionSlot) -> Option<Waker> {
        match *self {}
    }

    fn move_to(&self, (): &(), _: &Arc<Channel<Self>>, _: &Arc<Channel<Self>>, _: Option<u64>) {
        match *self {}
    }

    fn member(&self, (): &(), _: &Channel<Self>) -> Option<super::Member> {
        match *self {}
    }
}

struct TestChannels {
    channels: Arc<Channels<NoSubscriber>>,
    _runtime: Runtime,
}

impl TestChannels {
    fn new(limit: usize, log: LogLimits) -> Self {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let clock = Arc::new(Clock::new(Duration::from_millis(500)));
        let (timeouts, _to_arm) = Timeouts::new(clock, Duration::ZERO, 0);
        let metrics = Arc::new(Metrics::new());
        let channels = Channels::new(
            Arc::default(),
            limit,
            usize::MAX,
            Arc::new(Namespaces::new(log, Vec::new())),
            timeouts,
            metrics,
            Entropy::system(),
            Arc::new(runtime.handle().clone()),
        );
        Self { channels: Arc::new(channels), _runtime: runtime }
    }

    fn publish(&self, channel: &str, data: &str) -> Result<u64, TooManyChannels> {
        self.publish_as(&QuotaOwner::Operator, channel, data)
    }

    fn publish_as(&self, creator: &QuotaOwner, channel: &str, data: &str) -> Result<u64, TooManyChannels> {
        self.channels
            .publish(&name(channel), creator, &CompactJson::parse(data).expect("good JSON").into(), None)
            .map(|published| published.offset)
            .map_err(|error| match error {
                PublishError::TooManyChannels(error) => error,
                PublishError::Draining => panic!("channels are open"),
            })
    }

    fn bounds(&self, channel: &str) -> LogBounds {
        self.channels.get(channel).expect("the channel").view().bounds
    }
}

fn name(text: &str) -> ChannelName {
    ChannelName::new(text, 255).expect("a good name")
}

#[test]
fn offsets_count_from_one_and_data_is_compacted() {
    let world = TestChannels::new(10, WIDE);
    assert_eq!(world.publish("a", "{ \"x\" : 1 }"), Ok(1));
    assert_eq!(world.publish("a", "2"), Ok(2));
    assert_eq!(world.publish("b", "3"), Ok(1));
    let channel = world.channels.get("a").expect("the channel");
    let now = encke_core::Timestamp::MAX;
    let (bounds, history) = channel.history(HistoryPart::After(0), 10, now);
    assert_eq!(bounds, LogBounds { first: 1, last: 2 });
    assert_eq!(
        history.iter().map(|message| (message.offset, &*message.data)).collect::<Vec<_>>(),
        [(1, "{\"x\":1}"), (2, "2")]
    );
    assert_eq!(channel.history(HistoryPart::After(1), 10, now).1.len(), 1, "after the first");
}

/// A page continues next to the previous one, even if it was cut.
#[test]
fn a_history_is_bounded_by_messages_and_by_bytes() {
    use HistoryPart::{After, Between};
    let world = TestChannels::new(10, WIDE);
    for _ in 0..5 {
        world.publish("a", &format!("\"{}\"", "x".repeat(1000))).expect("published");
    }
    let channel = world.channels.get("a").expect("the channel");
    let newest = Between { after: 0, before: u64::MAX };
    for (part, messages, bytes, expected) in [
        (newest, 2, None, 4..=5),
        (newest, 10, Some(10_000), 1..=5),
        (newest, 10, Some(3_000), 4..=5),
        (newest, 1, Some(3_000), 5..=5),
        (newest, 10, Some(0), 5..=5),
        (Between { after: 0, before: 4 }, 10, Some(3_000), 2..=3),
        (Between { after: 2, before: 4 }, 10, Some(3_000), 3..=3),
        (After(0), 10, Some(3_000), 1..=2),
        (After(1), 10, Some(0), 2..=2),
        (After(3), 1, Some(3_000), 4..=4),
    ] {
        let limit = HistoryLimit { messages, bytes, without_notices: false };
        let (_, history) = channel.history(part, limit, encke_core::Timestamp::MAX);
        assert!(
            history.iter().map(|message| message.offset).eq(expected),
            "{part:?}, {limit:?}: {history:?}"
        );
    }
    for part in [After(5), After(u64::MAX), Between { after: 0, before: 0 }, Between { after: 0, before: 1 }]
    {
        let limit = HistoryLimit { messages: 10, bytes: Some(0), without_notices: false };
        assert!(channel.history(part, limit, encke_core::Timestamp::MAX).1.is_empty(), "{part:?}");
    }
}

#[test]
fn a_log_is_bounded_by_messages_and_by_bytes() {
    let world = TestChannels::new(10, LogLimits { messages: 3, ..WIDE });
    for _ in 0..5 {
        world.publish("a", "1").expect("published");
    }
    assert_eq!(world.bounds("a"), LogBounds { first: 3, last: 5 });
    let world = TestChannels::new(10, LogLimits { bytes: 1_000, ..WIDE });
    let large = format!("\"{}\"", "x".repeat(400));
    for _ in 0..5 {
        world.publish("a", &large).expect("published");
    }
    assert_eq!(world.bounds("a"), LogBounds { first: 4, last: 5 });
    assert!(world.channels.bytes() <= 1_000);
}

#[test]
fn the_newest_message_stays_however_large() {
    let world = TestChannels::new(10, LogLimits { bytes: 100, ..WIDE });
    world.publish("a", "1").expect("published");
    world.publish("a", &format!("\"{}\"", "x".repeat(400))).expect("published");
    assert_eq!(world.bounds("a"), LogBounds { first: 2, last: 2 });
}

#[test]
fn over_budget_the_oldest_messages_are_dropped_and_empty_channels_removed() {
    let world = TestChannels::new(100, LogLimits { total_bytes: 2_000, ..WIDE });
    let large = format!("\"{}\"", "x".repeat(400));
    for channel in ["a", "b", "c", "a"] {
        world.publish(channel, &large).expect("published");
    }
    assert!(world.channels.bytes() <= 2_000);
    let before = world.channels.len();
    for channel in ["d", "e"] {
        world.publish(channel, &large).expect("published");
    }
    assert!(world.channels.bytes() <= 2_000, "{} bytes", world.channels.bytes());
    assert!(world.channels.get("b").is_none(), "its only message was one of the oldest");
    assert_eq!(world.bounds("e"), LogBounds { first: 1, last: 1 });
    assert!(world.channels.len() <= before + 1);
}

#[test]
fn over_budget_the_creator_with_most_bytes_loses_messages_first() {
    let world = TestChannels::new(100, LogLimits { total_bytes: 20_000, ..WIDE });
    let large = format!("\"{}\"", "x".repeat(400));
    let user = |name: &str| QuotaOwner::new(Some(name.into()), [127, 0, 0, 1].into());
    for _ in 0..20 {
        world.publish("api", &large).expect("published");
    }
    world.publish_as(&user("alice"), "alice", &large).expect("published");
    // Bob's messages are the newest, but all of them are dropped before anyone else's.
    for number in 0..100 {
        world.publish_as(&user("bob"), &format!("bob.{}", number % 5), &large).expect("published");
    }
    assert!(world.channels.bytes() <= 20_000);
    assert_eq!(world.bounds("alice"), LogBounds { first: 1, last: 1 });
    assert_eq!(world.bounds("api"), LogBounds { first: 1, last: 20 });
    for number in 0..200 {
        world.publish_as(&user("carol"), &format!("carol.{}", number % 5), &large).expect("published");
    }
    assert_eq!(world.bounds("alice"), LogBounds { first: 1, last: 1 });
    assert!(world.channels.after(None, 100).iter().any(|channel| channel.name().as_str().starts_with("bob")));
    for _ in 0..100 {
        world.publish("api", &large).expect("published");
    }
    assert!(world.channels.bytes() <= 20_000);
    assert!(
        world.channels.get("alice").is_none() && world.channels.get("carol.0").is_none(),
        "messages created by the API are dropped last"
    );
}

#[test]
fn new_message_stays_while_older_ones_can_be_dropped() {
    let world = TestChannels::new(100, LogLimits { total_bytes: 20_000, ..WIDE });
    let user = |name: String| QuotaOwner::new(Some(name.into()), [127, 0, 0, 1].into());
    for number in 0..50 {
        let name = format!("small.{number}");
        world.publish_as(&user(name.clone()), &name, &format!("\"{}\"", "x".repeat(400))).expect("published");
    }
    let large = format!("\"{}\"", "x".repeat(4_000));
    world.publish_as(&user("large".to_owned()), "large", &large).expect("published");
    assert!(world.channels.bytes() <= 20_000);
    assert_eq!(world.bounds("large"), LogBounds { first: 1, last: 1 });
}

#[test]
fn sizes_return_to_zero_when_all_channels_are_removed() {
    let world = TestChannels::new(100, LogLimits { age: Some(Duration::from_nanos(1)), ..WIDE });
    for number in 0..50 {
        world.publish(&format!("c{}", number % 7), &"1".repeat(number + 1)).expect("published");
    }
    for channel in world.channels.after(None, 100) {
        world.channels.handle_timeout(&channel);
    }
    assert_eq!((world.channels.len(), world.channels.bytes()), (0, 0));
    assert!(world.channels.retention().has_no_accounts());
    assert_eq!(world.channels.timer_count(), 0, "all timers are removed");
}

#[test]
fn idle_channel_is_evicted_at_the_channel_limit() {
    let world = TestChannels::new(2, WIDE);
    for channel in ["a", "b", "c"] {
        assert_eq!(world.publish(channel, "1"), Ok(1));
    }
    assert!(world.channels.get("a").is_none(), "the oldest");
    assert_eq!(world.publish("b", "1"), Ok(2), "channel b still exists");
    assert_eq!(world.channels.timer_count(), 2);
    let bytes: usize =
        ["b", "c"].map(|name| world.channels.get(name).expect("the channel").view().bytes).iter().sum();
    assert_eq!(world.channels.bytes(), bytes);
}

#[test]
fn one_address_has_at_most_half_of_all_channels() {
    let world = TestChannels::new(4, WIDE);
    let hoarder = QuotaOwner::Address([10, 0, 0, 1].into());
    let acquire = |channel| world.channels.acquire(&name(channel), &hoarder);
    let held = [acquire("a").expect("the first"), acquire("b").expect("half of all")];
    assert_eq!(acquire("c").err(), Some(TooManyChannels::Address { limit: 2 }), "all of them have guards");
    for channel in ["x", "y"] {
        assert_eq!(
            world.publish_as(&QuotaOwner::Address([10, 0, 0, 2].into()), channel, "1"),
            Ok(1),
            "a newcomer"
        );
    }
    assert!(held.iter().all(|held| world.channels.get(held.channel().name().as_str()).is_some()));
}

#[test]
fn address_over_its_half_loses_its_oldest_idle_channel() {
    let world = TestChannels::new(10, WIDE);
    let address = QuotaOwner::Address([10, 0, 0, 1].into());
    for channel in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(world.publish_as(&address, channel, "1"), Ok(1));
    }
    assert!(world.channels.get("a").is_none() && world.channels.get("b").is_some());
}

#[test]
fn recreated_channel_has_another_epoch() {
    let world = TestChannels::new(10, LogLimits { age: Some(Duration::from_nanos(1)), ..WIDE });
    world.publish("a", "1").expect("published");
    let channel = world.channels.get("a").expect("the channel");
    world.channels.handle_timeout(&channel);
    assert!(world.channels.get("a").is_none(), "no message and no subscriber");
    assert_eq!(world.publish("a", "1"), Ok(1));
    let next = world.channels.get("a").expect("the channel");
    assert_ne!(channel.epoch(), next.epoch());
}

#[test]
fn pages_are_sorted_by_name() {
    let world = TestChannels::new(10, WIDE);
    for channel in ["b", "a", "c"] {
        world.publish(channel, "1").expect("published");
    }
    let names = |cursor, limit| {
        let page = world.channels.after(cursor, limit);
        page.iter().map(|channel| channel.name().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 2), ["a", "b"]);
    assert_eq!(names(Some("b"), 2), ["c"]);
}

/// Channel and data of each message in a pattern's log.
fn history(world: &TestChannels, pattern: &str) -> Vec<(String, String)> {
    let pattern = world.channels.get(pattern).expect("the pattern");
    let (_, messages) = pattern.history(HistoryPart::After(0), usize::MAX, encke_core::Timestamp::MAX);
    let channel = |message: &HistoryMessage| {
        message.origin.as_ref().expect("messages of patterns have an origin").channel.to_string()
    };
    messages.iter().map(|message| (channel(message), message.data.clone())).collect()
}

impl TestChannels {
    fn subscribe(&self, pattern: &str) -> ChannelGuard<NoSubscriber> {
        self.channels.acquire(&name(pattern), &QuotaOwner::Operator).expect("there is room")
    }
}

#[test]
fn subscribed_pattern_gets_messages_of_matching_channels() {
    let world = TestChannels::new(100, WIDE);
    world.publish("/a/x", "0").expect("published");
    let _guards = [world.subscribe("/a/*"), world.subscribe("/a/**"), world.subscribe("/**")];
    for (channel, data) in
        [("/a/x", "1"), ("/a/x/y", "2"), ("/b", "3"), ("a/x", "4"), ("/a/z", "5"), ("/a", "6")]
    {
        world.publish(channel, data).expect("published");
    }
    let expected =
        |list: &[(&str, &str)]| list.iter().map(|(c, d)| (c.to_string(), d.to_string())).collect::<Vec<_>>();
    assert_eq!(history(&world, "/a/*"), expected(&[("/a/x", "1"), ("/a/z", "5")]));
    assert_eq!(history(&world, "/a/**"), expected(&[("/a/x", "1"), ("/a/x/y", "2"), ("/a/z", "5")]));
    let all = [("/a/x", "1"), ("/a/x/y", "2"), ("/b", "3"), ("/a/z", "5"), ("/a", "6")];
    assert_eq!(history(&world, "/**"), expected(&all));
    assert_eq!(world.bounds("/a/x"), LogBounds { first: 1, last: 2 });
}

#[test]
fn message_knows_its_position_in_every_log() {
    let world = TestChannels::new(100, WIDE);
    let _guards = [world.subscribe("/a/*"), world.subscribe("/**")];
    world.publish("/b", "1").expect("published");
    world.publish("/a/x", "2").expect("published");
    let position = |name: &str, offset| LogPosition {
        log: world.channels.get(name).expect("the channel").number(),
        offset,
    };
    let expected = [position("/a/x", 1), position("/**", 2), position("/a/*", 1)];
    for (name, offset) in [("/a/x", 1), ("/**", 2), ("/a/*", 1)] {
        let log = world.channels.get(name).expect("the channel");
        assert_eq!(log.read().positions(offset), expected, "{name}");
    }
}

#[test]
fn shared_bytes_count_once() {
    let world = TestChannels::new(100, LogLimits { messages: 4, ..WIDE });
    let large = format!("\"{}\"", "x".repeat(10_000));
    let guards = [world.subscribe("/a/*"), world.subscribe("/a/**"), world.subscribe("/**")];
    world.publish("/a/x", &large).expect("published");
    let one = world.channels.bytes();
    assert!((10_000..11_000).contains(&one), "{one}");
    // First, the channel drops messages that the patterns still have; then vice versa.
    for channel in ["/a/x", "/a/y"] {
        for _ in 0..20 {
            world.publish(channel, &large).expect("published");
            assert!(world.channels.bytes() <= 8 * 11_000);
        }
    }
    drop(guards);
    for channel in world.channels.after(None, 100) {
        world.channels.retention().trim(&channel, |log| log.clear());
    }
    assert_eq!((world.channels.len(), world.channels.bytes()), (0, 0));
    assert!(world.channels.retention().has_no_accounts());
}

#[test]
fn messages_of_a_channel_without_a_local_log_are_only_in_patterns() {
    let world = TestChannels::new(100, LogLimits { messages: 4, ..WIDE });
    let channels = &world.channels;
    let guards = [world.subscribe("/a/*"), world.subscribe("/**")];
    let large = format!("\"{}\"", "x".repeat(10_000));
    let data = CompactJson::parse(&large).expect("good JSON").into();
    for offset in 7..=20 {
        channels.feed_patterns(&name("/a/x"), "e", offset, &data);
        assert!(channels.bytes() <= 4 * 11_000, "each message counts once");
    }
    channels.feed_patterns(&name("/b"), "f", 1, &data);
    channels.feed_patterns(&name("b"), "f", 1, &data);
    assert!(channels.get("/a/x").is_none());
    assert_eq!((world.bounds("/a/*").last, world.bounds("/**").last), (14, 15));
    // Create a local log for the channel. The patterns already have its earlier messages.
    let epoch = LogEpoch { id: "e".into(), last: 18, past: Box::default(), is_loading: true };
    let guard =
        channels.acquire_with_epoch(&name("/a/x"), &QuotaOwner::Operator, &epoch).expect("there is room");
    let channel = guard.channel();
    assert_eq!(channels.feed(channel, 20, Duration::ZERO, &data), FeedOutcome::Ahead);
    for offset in [19, 20] {
        assert_eq!(channels.feed_alone(channel, offset, Duration::ZERO, &data), FeedOutcome::Appended);
    }
    assert_eq!(channels.feed(channel, 21, Duration::ZERO, &data), FeedOutcome::Appended);
    assert_eq!(channels.feed(channel, 21, Duration::ZERO, &data), FeedOutcome::Duplicate);
    let position =
        |name: &str, offset| LogPosition { log: channels.get(name).expect("the channel").number(), offset };
    assert!(channel.read().positions(20).is_empty());
    let positions = [position("/a/x", 21), position("/**", 16), position("/a/*", 15)];
    assert_eq!(channel.read().positions(21), positions);
    drop((guards, guard));
    for channel in channels.after(None, 100) {
        channels.retention().trim(&channel, |log| log.clear());
    }
    assert_eq!((channels.len(), channels.bytes()), (0, 0));
}

#[test]
fn idle_pattern_is_kept_until_the_next_message_is_dropped() {
    let world = TestChannels::new(100, LogLimits { messages: 4, ..WIDE });
    let guards = world.subscribe("/a/*");
    world.publish("/a/x", "1").expect("published");
    let epoch = world.channels.get("/a/*").expect("the channel").epoch().to_owned();
    drop(guards);
    for number in 2..=5 {
        world.publish("/a/x", &number.to_string()).expect("published");
        assert_eq!(world.channels.get("/a/*").expect("the channel").epoch(), epoch, "{number}");
    }
    // A subscriber that left after message 1 can resume at 2.
    assert_eq!(world.bounds("/a/*"), LogBounds { first: 2, last: 5 });
    world.publish("/a/x", "6").expect("published");
    assert!(world.channels.get("/a/*").is_none(), "message 2 was dropped, so nobody can resume");
    assert_eq!(world.channels.timer_count(), 1);
}

#[test]
fn patterns_count_as_channels() {
    let world = TestChannels::new(2, WIDE);
    let _guards = [world.subscribe("/a/*"), world.subscribe("/b/*")];
    assert_eq!(world.publish("/a/x", "1"), Err(TooManyChannels::Server { limit: 2 }));
}

/// Several threads publish to channels with patterns in common. All logs must have the shared messages in the
/// same order.
#[test]
fn shared_messages_have_the_same_order_in_all_logs() {
    let world = TestChannels::new(100, LogLimits { messages: 100_000, bytes: usize::MAX, ..WIDE });
    let _guards = [world.subscribe("/a/**"), world.subscribe("/**")];
    std::thread::scope(|scope| {
        for channel in ["/a/x", "/a/y", "/b"] {
            scope.spawn({
                let world = &world;
                move || {
                    for number in 0..1000 {
                        world.publish(channel, &number.to_string()).expect("published");
                    }
                }
            });
        }
    });
    let all = history(&world, "/**");
    assert_eq!(all.len(), 3000);
    assert_eq!(
        history(&world, "/a/**"),
        all.into_iter().filter(|(name, _)| name != "/b").collect::<Vec<_>>()
    );
}

/// Direct-message channels are not listed, do not count towards the limit, and are removed when their last
/// guard is dropped.
#[test]
fn direct_message_channels_are_unlisted_and_unlimited() {
    let world = TestChannels::new(3, WIDE);
    for channel in ["#", "b", "%"] {
        world.publish(channel, "1").expect("published");
    }
    assert!(world.channels.acquire_direct(|| ChannelName::for_user("alice")).is_none());
    let publish_direct = |name: &ChannelName| {
        let guard = world
            .channels
            .acquire(name, &QuotaOwner::Operator)
            .expect("direct-message channels have no limit");
        let data = CompactJson::parse("1").expect("JSON");
        world.channels.publish(name, &QuotaOwner::Operator, &data.into(), None).expect("published");
        guard
    };
    let before = world.channels.bytes();
    let holds: Vec<_> = (0..5).map(|number| publish_direct(&ChannelName::for_session(&number))).collect();
    let again = world.channels.acquire_direct(|| ChannelName::for_session(&2)).expect("the channel");
    assert!(world.channels.acquire_direct(|| ChannelName::for_user("alice")).is_none());
    let found = |cursor, limit| {
        let page = world.channels.public_after(cursor, limit);
        page.iter().map(|channel| channel.name().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(None, 9), ["#", "%", "b"]);
    assert_eq!(found(None, 2), ["#", "%"]);
    for (cursor, expected) in [("#", &["%", "b"][..]), ("$", &["%", "b"]), ("%", &["b"]), ("b", &[])] {
        assert_eq!(found(Some(cursor), 9), expected, "after {cursor}");
    }
    drop(holds);
    assert_eq!(world.channels.len(), 4, "one of them has a guard");
    drop(again);
    assert_eq!((world.channels.len(), world.channels.bytes()), (3, before));
}
