use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use encke_core::message::CompactJson;
use encke_core::session::outbox::{Bounds, Place, Slot};
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::admission::Holder;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::metrics::Metrics;
use crate::timeouts::Timeouts;

/// One channel's limits are wide unless a test narrows them.
const WIDE: LogLimits = LogLimits { messages: 1000, bytes: 1 << 20, age: None, total_bytes: usize::MAX };

/// What these channels would be followed by.
#[derive(Clone, Copy, Debug)]
enum Nobody {}

impl Subscriber for Nobody {
    type Home = ();

    fn is_there(&self, (): &()) -> bool {
        match *self {}
    }

    fn tell_readable(&self, (): &(), _: Slot) -> Option<Waker> {
        match *self {}
    }

    fn move_on(&self, (): &(), _: &Arc<Channel<Self>>, _: &Arc<Channel<Self>>, _: Option<u64>) {
        match *self {}
    }

    fn member(&self, (): &(), _: &Channel<Self>) -> Option<super::Member> {
        match *self {}
    }
}

struct World {
    channels: Arc<Channels<Nobody>>,
    _runtime: Runtime,
}

impl World {
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
        self.publish_as(&Holder::Operator, channel, data)
    }

    fn publish_as(&self, maker: &Holder, channel: &str, data: &str) -> Result<u64, TooManyChannels> {
        self.channels
            .publish(&name(channel), maker, &CompactJson::parse(data).expect("good JSON").into(), None)
            .map(|published| published.offset)
            .map_err(|error| match error {
                NotPublished::TooManyChannels(error) => error,
                NotPublished::Draining => panic!("nobody has closed the channels"),
            })
    }

    fn bounds(&self, channel: &str) -> Bounds {
        self.channels.get(channel).expect("the channel").view().bounds
    }
}

fn name(text: &str) -> ChannelName {
    ChannelName::new(text, 255).expect("a good name")
}

#[test]
fn offsets_count_from_one_and_data_is_compacted() {
    let world = World::new(10, WIDE);
    assert_eq!(world.publish("a", "{ \"x\" : 1 }"), Ok(1));
    assert_eq!(world.publish("a", "2"), Ok(2));
    assert_eq!(world.publish("b", "3"), Ok(1));
    let channel = world.channels.get("a").expect("the channel");
    let now = encke_core::Timestamp::MAX;
    let (bounds, history) = channel.history(HistoryPart::After(0), 10, now);
    assert_eq!(bounds, Bounds { first: 1, last: 2 });
    assert_eq!(
        history.iter().map(|message| (message.offset, &*message.data)).collect::<Vec<_>>(),
        [(1, "{\"x\":1}"), (2, "2")]
    );
    assert_eq!(channel.history(HistoryPart::After(1), 10, now).1.len(), 1, "after the first");
}

#[test]
fn a_log_is_bounded_by_messages_and_by_bytes() {
    let world = World::new(10, LogLimits { messages: 3, ..WIDE });
    for _ in 0..5 {
        world.publish("a", "1").expect("published");
    }
    assert_eq!(world.bounds("a"), Bounds { first: 3, last: 5 });
    let world = World::new(10, LogLimits { bytes: 1_000, ..WIDE });
    let large = format!("\"{}\"", "x".repeat(400));
    for _ in 0..5 {
        world.publish("a", &large).expect("published");
    }
    assert_eq!(world.bounds("a"), Bounds { first: 4, last: 5 });
    assert!(world.channels.bytes() <= 1_000);
}

#[test]
fn the_newest_message_stays_however_large() {
    let world = World::new(10, LogLimits { bytes: 100, ..WIDE });
    world.publish("a", "1").expect("published");
    world.publish("a", &format!("\"{}\"", "x".repeat(400))).expect("published");
    assert_eq!(world.bounds("a"), Bounds { first: 2, last: 2 });
}

#[test]
fn together_the_oldest_messages_go_first_and_emptied_channels_go_away() {
    let world = World::new(100, LogLimits { total_bytes: 2_000, ..WIDE });
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
    assert!(world.channels.get("b").is_none(), "its only message was among the oldest");
    assert_eq!(world.bounds("e"), Bounds { first: 1, last: 1 });
    assert!(world.channels.len() <= before + 1);
}

#[test]
fn whoever_holds_most_gives_first() {
    let world = World::new(100, LogLimits { total_bytes: 20_000, ..WIDE });
    let large = format!("\"{}\"", "x".repeat(400));
    let user = |name: &str| Holder::new(Some(name.into()), [127, 0, 0, 1].into());
    for _ in 0..20 {
        world.publish("api", &large).expect("published");
    }
    world.publish_as(&user("alice"), "alice", &large).expect("published");
    // It is young, and all of it goes before anything that others have.
    for number in 0..100 {
        world.publish_as(&user("bob"), &format!("bob.{}", number % 5), &large).expect("published");
    }
    assert!(world.channels.bytes() <= 20_000);
    assert_eq!(world.bounds("alice"), Bounds { first: 1, last: 1 });
    assert_eq!(world.bounds("api"), Bounds { first: 1, last: 20 });
    for number in 0..200 {
        world.publish_as(&user("carol"), &format!("carol.{}", number % 5), &large).expect("published");
    }
    assert_eq!(world.bounds("alice"), Bounds { first: 1, last: 1 });
    assert!(world.channels.after(None, 100).iter().any(|channel| channel.name().as_str().starts_with("bob")));
    for _ in 0..100 {
        world.publish("api", &large).expect("published");
    }
    assert!(world.channels.bytes() <= 20_000);
    assert!(
        world.channels.get("alice").is_none() && world.channels.get("carol.0").is_none(),
        "the API's goes last"
    );
}

#[test]
fn what_was_just_published_stays_while_there_is_anything_older() {
    let world = World::new(100, LogLimits { total_bytes: 20_000, ..WIDE });
    let user = |name: String| Holder::new(Some(name.into()), [127, 0, 0, 1].into());
    for number in 0..50 {
        let name = format!("small.{number}");
        world.publish_as(&user(name.clone()), &name, &format!("\"{}\"", "x".repeat(400))).expect("published");
    }
    let large = format!("\"{}\"", "x".repeat(4_000));
    world.publish_as(&user("large".to_owned()), "large", &large).expect("published");
    assert!(world.channels.bytes() <= 20_000);
    assert_eq!(world.bounds("large"), Bounds { first: 1, last: 1 });
}

#[test]
fn sizes_add_up_to_nothing_when_all_is_gone() {
    let world = World::new(100, LogLimits { age: Some(Duration::from_nanos(1)), ..WIDE });
    for number in 0..50 {
        world.publish(&format!("c{}", number % 7), &"1".repeat(number + 1)).expect("published");
    }
    for channel in world.channels.after(None, 100) {
        world.channels.handle_timeout(&channel);
    }
    assert_eq!((world.channels.len(), world.channels.bytes()), (0, 0));
    assert!(world.channels.has_no_accounts());
    assert_eq!(world.channels.owners.len(), 0, "every timer has been given up");
}

#[test]
fn a_channel_that_nobody_follows_makes_room() {
    let world = World::new(2, WIDE);
    for channel in ["a", "b", "c"] {
        assert_eq!(world.publish(channel, "1"), Ok(1));
    }
    assert!(world.channels.get("a").is_none(), "the oldest");
    assert_eq!(world.publish("b", "1"), Ok(2), "it is there still");
    assert_eq!(world.channels.owners.len(), 2);
    let bytes: usize =
        ["b", "c"].map(|name| world.channels.get(name).expect("there").view().bytes).iter().sum();
    assert_eq!(world.channels.bytes(), bytes);
}

#[test]
fn one_address_has_at_most_half_of_all_channels() {
    let world = World::new(4, WIDE);
    let hoarder = Holder::Address([10, 0, 0, 1].into());
    let follow = |channel| world.channels.hold(&name(channel), &hoarder);
    let held = [follow("a").expect("the first"), follow("b").expect("half of all")];
    assert_eq!(follow("c").err(), Some(TooManyChannels::OfAddress { limit: 2 }), "all of them are followed");
    for channel in ["x", "y"] {
        assert_eq!(
            world.publish_as(&Holder::Address([10, 0, 0, 2].into()), channel, "1"),
            Ok(1),
            "a newcomer"
        );
    }
    assert!(held.iter().all(|held| world.channels.get(held.channel().name().as_str()).is_some()));
}

#[test]
fn beyond_its_half_an_address_loses_its_oldest_that_nobody_follows() {
    let world = World::new(10, WIDE);
    let address = Holder::Address([10, 0, 0, 1].into());
    for channel in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(world.publish_as(&address, channel, "1"), Ok(1));
    }
    assert!(world.channels.get("a").is_none() && world.channels.get("b").is_some());
}

#[test]
fn a_channel_that_comes_back_has_another_epoch() {
    let world = World::new(10, LogLimits { age: Some(Duration::from_nanos(1)), ..WIDE });
    world.publish("a", "1").expect("published");
    let channel = world.channels.get("a").expect("the channel");
    world.channels.handle_timeout(&channel);
    assert!(world.channels.get("a").is_none(), "no message and no subscriber");
    assert_eq!(world.publish("a", "1"), Ok(1));
    let next = world.channels.get("a").expect("the channel");
    assert_ne!(channel.epoch(), next.epoch());
}

#[test]
fn pages_go_by_name() {
    let world = World::new(10, WIDE);
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

/// What a pattern's log has: channels and data.
fn history(world: &World, pattern: &str) -> Vec<(String, String)> {
    let pattern = world.channels.get(pattern).expect("the pattern");
    let (_, messages) = pattern.history(HistoryPart::After(0), usize::MAX, encke_core::Timestamp::MAX);
    let channel = |message: &HistoryMessage| {
        message.channel.as_ref().expect("it says where it was published").to_string()
    };
    messages.iter().map(|message| (channel(message), message.data.clone())).collect()
}

impl World {
    fn follow(&self, pattern: &str) -> Hold<Nobody> {
        self.channels.hold(&name(pattern), &Holder::Operator).expect("there is room")
    }
}

#[test]
fn a_pattern_gets_what_is_published_to_its_channels_while_it_is_followed() {
    let world = World::new(100, WIDE);
    world.publish("/a/x", "0").expect("published");
    let _followed = [world.follow("/a/*"), world.follow("/a/**"), world.follow("/**")];
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
    assert_eq!(world.bounds("/a/x"), Bounds { first: 1, last: 2 });
}

#[test]
fn a_message_knows_its_place_in_every_log() {
    let world = World::new(100, WIDE);
    let _followed = [world.follow("/a/*"), world.follow("/**")];
    world.publish("/b", "1").expect("published");
    world.publish("/a/x", "2").expect("published");
    let place =
        |name: &str, offset| Place { log: world.channels.get(name).expect("it is there").number(), offset };
    let expected = [place("/a/x", 1), place("/**", 2), place("/a/*", 1)];
    for (name, offset) in [("/a/x", 1), ("/**", 2), ("/a/*", 1)] {
        let log = world.channels.get(name).expect("it is there");
        assert_eq!(log.read().places(offset), expected, "{name}");
    }
}

#[test]
fn bytes_that_several_logs_hold_count_once() {
    let world = World::new(100, LogLimits { messages: 4, ..WIDE });
    let large = format!("\"{}\"", "x".repeat(10_000));
    let followed = [world.follow("/a/*"), world.follow("/a/**"), world.follow("/**")];
    world.publish("/a/x", &large).expect("published");
    let one = world.channels.bytes();
    assert!((10_000..11_000).contains(&one), "{one}");
    // The channel loses it, the patterns have it still; and the other way round.
    for channel in ["/a/x", "/a/y"] {
        for _ in 0..20 {
            world.publish(channel, &large).expect("published");
            assert!(world.channels.bytes() <= 8 * 11_000);
        }
    }
    drop(followed);
    for channel in world.channels.after(None, 100) {
        world.channels.trim_if(&channel, |_| true, |log| log.clear());
    }
    assert_eq!((world.channels.len(), world.channels.bytes()), (0, 0));
    assert!(world.channels.has_no_accounts());
}

#[test]
fn what_comes_of_a_channel_that_is_not_here_is_in_its_patterns_alone() {
    let world = World::new(100, LogLimits { messages: 4, ..WIDE });
    let channels = &world.channels;
    let followed = [world.follow("/a/*"), world.follow("/**")];
    let large = format!("\"{}\"", "x".repeat(10_000));
    let data = CompactJson::parse(&large).expect("good JSON").into();
    for offset in 7..=20 {
        channels.feed_patterns(&name("/a/x"), "e", offset, &data);
        assert!(channels.bytes() <= 4 * 11_000, "each counts once");
    }
    channels.feed_patterns(&name("/b"), "f", 1, &data);
    channels.feed_patterns(&name("b"), "f", 1, &data);
    assert!(channels.get("/a/x").is_none());
    assert_eq!((world.bounds("/a/*").last, world.bounds("/**").last), (14, 15));
    // The channel comes to be here. What it has had is nothing new to them.
    let life = Life { epoch: "e".into(), last: 18, past: Box::default(), is_filling: true };
    let hold = channels.hold_in_life(&name("/a/x"), &Holder::Operator, &life).expect("there is room");
    let channel = hold.channel();
    assert_eq!(channels.feed(channel, 20, Duration::ZERO, &data), Fed::Ahead);
    for offset in [19, 20] {
        assert_eq!(channels.feed_alone(channel, offset, Duration::ZERO, &data), Fed::Appended);
    }
    assert_eq!(channels.feed(channel, 21, Duration::ZERO, &data), Fed::Appended);
    assert_eq!(channels.feed(channel, 21, Duration::ZERO, &data), Fed::Known);
    let place = |name: &str, offset| Place { log: channels.get(name).expect("it is there").number(), offset };
    assert!(channel.read().places(20).is_empty());
    assert_eq!(channel.read().places(21), [place("/a/x", 21), place("/**", 16), place("/a/*", 15)]);
    drop((followed, hold));
    for channel in channels.after(None, 100) {
        channels.trim_if(&channel, |_| true, |log| log.clear());
    }
    assert_eq!((channels.len(), channels.bytes()), (0, 0));
}

#[test]
fn a_pattern_that_nobody_follows_goes_on_while_it_has_what_came_next() {
    let world = World::new(100, LogLimits { messages: 4, ..WIDE });
    let followed = world.follow("/a/*");
    world.publish("/a/x", "1").expect("published");
    let epoch = world.channels.get("/a/*").expect("it is there").epoch().to_owned();
    drop(followed);
    for number in 2..=5 {
        world.publish("/a/x", &number.to_string()).expect("published");
        assert_eq!(world.channels.get("/a/*").expect("it is there").epoch(), epoch, "{number}");
    }
    // Who left it with 1 can go on with 2.
    assert_eq!(world.bounds("/a/*"), Bounds { first: 2, last: 5 });
    world.publish("/a/x", "6").expect("published");
    assert!(world.channels.get("/a/*").is_none(), "2 is gone, and with it all that it was kept for");
    assert_eq!(world.channels.owners.len(), 1);
}

#[test]
fn patterns_count_as_channels() {
    let world = World::new(2, WIDE);
    let _followed = [world.follow("/a/*"), world.follow("/b/*")];
    assert_eq!(world.publish("/a/x", "1"), Err(TooManyChannels::Here { limit: 2 }));
}

/// Two threads publish to channels that share two patterns: all logs have what they share in one order.
#[test]
fn logs_have_what_they_share_in_one_order() {
    let world = World::new(100, LogLimits { messages: 100_000, bytes: usize::MAX, ..WIDE });
    let _followed = [world.follow("/a/**"), world.follow("/**")];
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

/// What the server says is no channel for anyone to find, or to have room for; and it is gone once nobody hears it.
#[test]
fn what_the_server_says_is_beside_all_channels() {
    let world = World::new(3, WIDE);
    for channel in ["#", "b", "%"] {
        world.publish(channel, "1").expect("published");
    }
    assert!(world.channels.hold_direct(|| ChannelName::to_user("alice")).is_none());
    let says = |name: &ChannelName| {
        let hold = world.channels.hold(name, &Holder::Operator).expect("it counts for nobody");
        let data = CompactJson::parse("1").expect("JSON");
        world.channels.publish(name, &Holder::Operator, &data.into(), None).expect("published");
        hold
    };
    let before = world.channels.bytes();
    let holds: Vec<_> = (0..5).map(|number| says(&ChannelName::to_session(&number))).collect();
    let again = world.channels.hold_direct(|| ChannelName::to_session(&2)).expect("it is there");
    assert!(world.channels.hold_direct(|| ChannelName::to_user("alice")).is_none());
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
    assert_eq!(world.channels.len(), 4, "one is held");
    drop(again);
    assert_eq!((world.channels.len(), world.channels.bytes()), (3, before));
}
