//! The example from the README ("In a browser"), run in Chromium. `ENCKE_SEED=<n>` repeats a random test with
//! the same seed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use encke_tests::network::NetworkLink;
use encke_tests::process::Signal;
use encke_tests::relay::Fate;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{TIMEOUT, let_pass, until};
use encke_tests::{Launch, Relay, RunningServer, Script};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// Number of messages by which the publisher may be ahead of the page. Less than a channel's history.
const AHEAD: usize = 100;

/// Short ping interval and pong timeout, but long enough for Chromium to answer on a busy machine.
const PINGS: [&str; 2] = ["session.ping_interval=1500ms", "session.pong_timeout=1200ms"];

/// Starts a page of the server's origin. The page subscribes to `channels` over connections to `sessions`.
fn page(server: &RunningServer, sessions: SocketAddr, channels: &[&str]) -> Script {
    let (address, sessions) = (server.public.to_string(), sessions.to_string());
    Script::start("session.mjs", &[&[&*address, &*sessions], channels].concat())
}

/// Starts a page that subscribes to `news`. Returns the page and its hello.
#[track_caller]
fn subscribed_page(server: &RunningServer, sessions: SocketAddr) -> (Script, Value) {
    let page = page(server, sessions, &["news"]);
    page.await_object("reply", 1);
    let hello = page.await_value("hello", 1);
    (page, hello)
}

/// Returns the session id of a hello.
fn id(hello: &Value) -> &str {
    hello["session"].as_str().expect("a hello has a session")
}

/// Asserts that the page's `nth` hello resumes the session of `hello`.
#[track_caller]
fn assert_resumed(page: &Script, nth: usize, hello: &Value) {
    let again = page.await_value("hello", nth);
    assert_eq!((&again["recovered"], id(&again)), (&json!(true), id(hello)));
}

/// Returns the data of the messages received on a channel, in order of arrival.
fn data(page: &Script, channel: &str) -> Vec<u64> {
    let messages = page.values("message").into_iter().filter(|message| message["channel"] == channel);
    messages.map(|message| message["data"].as_u64().expect("numbers were published")).collect()
}

/// Asserts that the page receives the numbers from 1 to `last` on `news`, once each and in order, and nothing
/// else.
#[track_caller]
fn assert_news(page: &Script, last: u64) {
    page.await_object("message", usize::try_from(last).expect("the number fits into usize"));
    assert_eq!(data(page, "news"), Vec::from_iter(1..=last));
}

fn publish(server: &RunningServer, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        server.admin.publish("news", number);
    }
}

/// Starts a relay that receives the fate of each connection from a channel and waits for it. Once the sender
/// is dropped, the relay leaves later connections intact.
fn relay(server: &RunningServer) -> (mpsc::Sender<Fate>, Relay) {
    let (sender, fates) = mpsc::channel();
    (sender, Relay::new(server.public, move || fates.recv().unwrap_or(Fate::Intact)))
}

/// Sets the fate of the next connection.
fn next(fates: &mpsc::Sender<Fate>, fate: Fate) {
    fates.send(fate).expect("the relay is running");
}

/// Publishes 1, 2, 3 and so on to each channel until `enough` returns `true`. Returns the last number.
fn publish_until(server: &RunningServer, page: &Script, channels: &[&str], enough: impl Fn() -> bool) -> u64 {
    let mut published = 0;
    while !enough() {
        published += 1;
        for channel in channels {
            server.admin.publish(channel, published);
        }
        let count = usize::try_from(published).expect("the number fits into usize") * channels.len();
        until("the page keeps up", || page.count("message") + AHEAD >= count);
    }
    published
}

#[test]
fn page_receives_published_messages() {
    let server = RunningServer::with(&["limits.max_subscriptions=2"]);
    let page = page(&server, server.public, &["news", "chat", "more"]);
    for (id, channel) in [(0, "news"), (1, "chat")] {
        let reply = page.await_value("reply", id + 1);
        assert_eq!((&reply["id"], &reply["ok"]["channel"]), (&json!(id), &json!(channel)));
    }
    let refused = page.await_value("reply", 3);
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!("limit")));

    let published = [
        ("news", json!({ "text": "\"ü\u{1f30d}\u{2028}\n" })),
        ("chat", json!([1, null])),
        ("news", json!(0.5)),
    ];
    for (channel, data) in &published {
        server.admin.publish(channel, data.clone());
    }
    page.await_object("message", 3);
    let received = page.values("message");
    for (message, (seq, (channel, data))) in received.iter().zip((1..).zip(&published)) {
        assert_eq!(
            (&message["seq"], &message["channel"], &message["data"]),
            (&json!(seq), &json!(channel), data)
        );
    }
    let socket = format!("ws://{}/ws?heartbeat=message", server.public);
    assert_eq!(page.values("socket"), [json!(socket)]);
}

/// The page does not mistake replies to publishes for replies to subscriptions: its session survives a
/// disconnect.
#[test]
fn page_keeps_its_session_after_publishing() {
    let server = RunningServer::with(&[]);
    let (mut page, hello) = subscribed_page(&server, server.public);
    for number in 1..=3 {
        page.send_command(&json!({"publish": ["news", number]}));
        let id = page.await_value("published", number);
        let reply = page.await_value("reply", number + 1);
        assert_eq!((&reply["id"], &reply["ok"]["offset"]), (&id, &json!(number)));
    }
    assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
    assert_resumed(&page, 2, &hello);
    page.send_command(&json!({"publish": ["news", 4]}));
    assert_news(&page, 4);
}

#[test]
fn a_page_that_closes_or_leaves_ends_its_session() {
    let server = RunningServer::with(&[]);
    for command in ["close", "leave"] {
        let (mut page, hello) = subscribed_page(&server, server.public);
        page.await_object("ready", 1);
        page.send_command(&json!({ command: true }));
        server.await_removal(id(&hello));
        server.logs.await_lifecycle(id(&hello), &[("opened", "connect"), ("closed", "client")]);
        assert_eq!((page.count("closed"), page.count("socket")), (0, 1));
    }
}

#[test]
fn a_page_fetches_a_token_for_each_connection() {
    let server = Launch::default().environment("ENCKE_AUTH__SECRET", SECRET).start();
    let token = |number: u32| {
        let claims = json!({"sub": "alice", "jti": number, "channels": {"news": ["subscribe"]}});
        sign(&claims, SECRET)
    };
    let (address, tokens) = (server.public.to_string(), [token(1), token(2)]);
    let arguments = tokens.clone().map(|token| format!("token={token}"));
    let page = Script::start("session.mjs", &[&address, &address, "news", &arguments[0], &arguments[1]]);
    page.await_object("reply", 1);
    let hello = page.await_value("hello", 1);
    assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
    assert_resumed(&page, 2, &hello);
    for (socket, token) in page.values("socket").iter().zip(&tokens) {
        assert!(socket.as_str().is_some_and(|url| url.contains(&format!("token={token}"))), "{socket}");
    }
}

#[test]
fn a_page_that_is_disconnected_again_and_again_misses_nothing() {
    let server = RunningServer::with(&[]);
    let (page, hello) = subscribed_page(&server, server.public);
    let published = std::thread::scope(|scope| {
        // Dropping this sender stops the publisher.
        let (running, stopped) = mpsc::channel::<()>();
        let is_stopped = move || stopped.try_recv() == Err(TryRecvError::Disconnected);
        let publisher = scope.spawn(|| publish_until(&server, &page, &["news"], is_stopped));
        for cut in 1..=4 {
            page.await_object("message", page.count("message") + 50);
            assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
            assert_resumed(&page, cut + 1, &hello);
        }
        drop(running);
        publisher.join().expect("the publisher does not panic")
    });
    assert_news(&page, published);
    assert_eq!(page.count("gap"), 0);
    assert_eq!(server.admin.metrics().events("opened", "connect"), 1.0);
}

#[test]
fn page_resumes_when_a_cut_link_is_restored() {
    let link = NetworkLink::new();
    let server = Launch::listening_on(&SocketAddr::new(link.near_address(), 0).to_string())
        .argument("--insecure")
        .set("session.ping_interval=1s")
        .set("session.pong_timeout=500ms")
        .start();
    let address = server.public.to_string();
    let page = Script::start_beyond(&link, "session.mjs", &[&address, &address, "news"]);
    page.await_object("reply", 1);
    let hello = page.await_value("hello", 1);
    publish(&server, 1..=5);
    page.await_object("message", 5);

    link.cut();
    publish(&server, 6..=8);
    server.await_phase(id(&hello), "suspended");
    publish(&server, 9..=10);
    assert_eq!(page.count("message"), 5);
    link.restore();
    assert_resumed(&page, 2, &hello);
    publish(&server, [11]);
    assert_news(&page, 11);
    assert_eq!(page.count("gap"), 0);
}

/// The page is not notified that its connection is dead. It reconnects before or after the server notices.
#[test]
fn page_resumes_after_an_unnoticed_connection_loss() {
    let settings = ["session.ping_interval=500ms", "session.pong_timeout=300ms"];
    let server = RunningServer::with(&settings);
    let (fates, relay) = relay(&server);
    // This many bytes contain a response head, a hello, a reply and some of the messages.
    next(&fates, Fate::Silent(1_000));
    drop(fates);
    let (page, hello) = subscribed_page(&server, relay.address);
    publish(&server, 1..=20);
    assert_resumed(&page, 2, &hello);
    assert_news(&page, 20);
}

/// The old connection stays open throughout. The server then closes it as replaced, which the page ignores.
#[test]
fn page_resumes_after_a_pause_of_the_server() {
    let server = RunningServer::with(&PINGS);
    let (page, hello) = subscribed_page(&server, server.public);
    publish(&server, 1..=5);
    page.await_object("message", 5);
    server.signal(Signal::STOP);
    page.await_object("socket", 2);
    server.signal(Signal::CONT);
    assert_resumed(&page, 2, &hello);
    publish(&server, 6..=10);
    assert_news(&page, 10);
    until("the old connection has ended", || server.admin.metrics().connections() == 1.0);
    page.await_object("ping", page.count("ping") + 1);
    assert_eq!((page.count("socket"), page.count("closed")), (2, 0));
}

#[test]
fn page_retries_an_unanswered_connection() {
    let server = RunningServer::with(&[]);
    let (fates, relay) = relay(&server);
    let page = page(&server, relay.address, &["news"]);
    page.await_object("socket", 2);
    drop(fates);
    page.await_object("reply", 1);
    publish(&server, 1..=3);
    assert_news(&page, 3);
}

#[test]
fn page_answers_pings_and_acknowledges_messages() {
    let server = RunningServer::with(&PINGS);
    let (page, hello) = subscribed_page(&server, server.public);
    publish(&server, 1..=5);
    until("all is acknowledged", || server.admin.session(id(&hello))["unacked"] == 0);
    assert_news(&page, 5);
    page.await_object("ping", 3);
    server.logs.await_lifecycle(id(&hello), &[("opened", "connect")]);
    assert_eq!(page.count("socket"), 1);
}

/// The server may or may not have received the subscribe command. The page discards the session, because its
/// subscription was never confirmed.
#[test]
fn page_opens_a_new_session_if_its_subscription_was_not_confirmed() {
    let server = RunningServer::with(&[]);
    let (fates, relay) = relay(&server);
    next(&fates, Fate::CutBefore("{\"reply\""));
    next(&fates, Fate::Intact);
    let (page, _) = subscribed_page(&server, relay.address);
    publish(&server, 1..=3);
    assert_news(&page, 3);
    let hellos = page.values("hello");
    assert_eq!(hellos.len(), 2);
    assert_ne!(id(&hellos[0]), id(&hellos[1]));
}

#[test]
fn kicked_and_replaced_pages_do_not_reconnect() {
    let server = RunningServer::with(&[]);
    let (kicked, kicked_hello) = subscribed_page(&server, server.public);
    let (replaced, replaced_hello) = subscribed_page(&server, server.public);
    assert_eq!(server.admin.kick(id(&kicked_hello)).status, 204);
    let token = replaced_hello["resume"].as_str().expect("a hello has a token");
    let _other = server.resume(token);
    assert_eq!(kicked.await_value("closed", 1), 4101);
    assert_eq!(replaced.await_value("closed", 1), 4100);
    // A page that wanted to reconnect would do so within half a second.
    let_pass(Duration::from_secs(2));
    assert_eq!((kicked.count("socket"), replaced.count("socket")), (1, 1));
}

/// Each message arrives once regardless of which subscription delivers it, and this still holds after the
/// session has expired.
#[test]
fn overlapping_patterns_deliver_each_message_once() {
    let server = RunningServer::with(&["session.reconnect_window=200ms"]);
    let channels = ["/a/b", "/a/*", "/**"];
    // Let the page reconnect only after its session has been removed: the relay holds the connection until
    // then.
    let (fates, relay) = relay(&server);
    next(&fates, Fate::Intact);
    let page = page(&server, relay.address, &channels);
    let hello = page.await_value("hello", 1);
    page.await_object("reply", channels.len());
    let publish = |numbers: std::ops::RangeInclusive<u64>| {
        for number in numbers {
            server.admin.publish(if number % 2 == 0 { "/a/b" } else { "/a/c" }, number);
        }
    };
    publish(1..=6);
    page.await_object("message", 6);
    server.admin.disconnect(id(&hello));
    server.await_removal(id(&hello));
    publish(7..=10);
    next(&fates, Fate::Intact);
    assert_eq!(page.await_value("hello", 2)["recovered"], false);
    page.await_object("reply", 2 * channels.len());
    publish(11..=14);
    page.await_object("message", 14);
    // The new session has sent some messages again with different seqs. The page suppresses these duplicates.
    server.admin.publish("/end", 0);
    until("the last message has arrived", || data(&page, "/end") == [0]);
    assert_eq!(data(&page, "/a/b"), [2, 4, 6, 8, 10, 12, 14]);
    assert_eq!(data(&page, "/a/c"), [1, 3, 5, 7, 9, 11, 13]);
    assert_eq!(page.count("gap"), 0);
}

/// The page misses nothing even if the connection breaks again before any of the missed messages has arrived.
#[test]
fn page_continues_in_a_new_session_without_loss() {
    let server = RunningServer::with(&["session.reconnect_window=200ms"]);
    let (fates, relay) = relay(&server);
    next(&fates, Fate::Intact);
    let (page, hello) = subscribed_page(&server, relay.address);
    publish(&server, 1..=5);
    page.await_object("message", 5);

    assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
    server.await_removal(id(&hello));
    publish(&server, 6..=8);
    next(&fates, Fate::CutBefore("{\"message\""));
    let hello = page.await_value("hello", 2);
    server.await_removal(id(&hello));
    publish(&server, [9]);
    next(&fates, Fate::Intact);
    let hello = page.await_value("hello", 3);
    assert_eq!((&hello["recovered"], &hello["seq"]), (&json!(false), &json!(0)));
    assert_news(&page, 9);
    assert_eq!(page.values("message")[5]["seq"], 1);
    for nth in [2, 3] {
        assert_eq!(page.await_value("reply", nth)["ok"]["recovered"], true);
    }
    assert_eq!(page.count("gap"), 0);
}

/// The gap is reported once, even if the connection breaks right after it, and whether or not the session
/// still exists.
#[test]
fn lost_messages_are_reported_in_one_gap() {
    for (window, recovered) in [("60s", true), ("200ms", false)] {
        let window = format!("session.reconnect_window={window}");
        let server = RunningServer::with(&["channel.history_messages=4", &window]);
        let (fates, relay) = relay(&server);
        next(&fates, Fate::Intact);
        let (page, mut hello) = subscribed_page(&server, relay.address);
        publish(&server, [1, 2]);
        page.await_object("message", 2);

        assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
        publish(&server, 3..=9);
        for (nth, fate) in [(2, Fate::CutBefore("{\"message\"")), (3, Fate::Intact)] {
            if !recovered {
                server.await_removal(id(&hello));
            }
            next(&fates, fate);
            hello = page.await_value("hello", nth);
            assert_eq!(hello["recovered"], recovered);
        }
        page.await_object("message", 6);
        assert_eq!(data(&page, "news"), [1, 2, 6, 7, 8, 9]);
        let gap = page.await_value("gap", 1);
        assert_eq!((&gap["from"], &gap["to"]), (&json!(3), &json!(5)));
        assert_eq!(page.count("gap"), 1);
    }
}

/// The first server either drains, and advises when to reconnect, or is killed.
#[test]
fn page_continues_with_another_server() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut server = RunningServer::with(&[]);
        let relay = Relay::new(server.public, || Fate::Intact);
        let (page, hello) = subscribed_page(&server, relay.address);
        publish(&server, 1..=3);
        page.await_object("message", 3);
        server.signal(signal);
        server.await_exit(TIMEOUT);

        let server = RunningServer::with(&[]);
        publish(&server, 4..=5);
        relay.redirect_to(server.public);
        let again = page.await_value("hello", 2);
        assert_eq!(again["recovered"], false);
        assert_ne!(id(&again), id(&hello));
        // How many messages were lost with the first server is unknown, so the gap has no range.
        let gap = page.await_value("gap", 1);
        assert_eq!((&gap["channel"], &gap["from"]), (&json!("news"), &Value::Null));
        publish(&server, [6]);
        assert_news(&page, 6);
        assert_eq!(page.count("gap"), 1);
        let at_ms = |key, nth| page.await_object(key, nth)["at_ms"].as_f64().expect("a time");
        if signal == Signal::TERM {
            let retry_ms = page.await_value("goaway", 1)["retry_ms"].as_f64().expect("a time");
            let waited_ms = at_ms("hello", 2) - at_ms("goaway", 1);
            assert!(waited_ms >= retry_ms, "{waited_ms} ms instead of {retry_ms}");
        }
    }
}

/// The first connections break one after the other at random bytes; later ones last. Some sessions expire
/// before the page reconnects.
#[test]
fn page_receives_every_message_once_and_in_order_wherever_its_connections_break() {
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    break_connections(seed, &["news", "chat"], ["news", "chat"]);
}

/// Like the test above, with a pattern that overlaps another subscription.
#[test]
fn page_with_patterns_receives_every_message_once_and_in_order_wherever_its_connections_break() {
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    break_connections(seed, &["/n/news", "/n/*"], ["/n/news", "/n/chat"]);
}

fn seed() -> u64 {
    std::env::var("ENCKE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"))
}

fn break_connections(seed: u64, subscriptions: &[&str], channels: [&str; 2]) {
    const BROKEN: usize = 8;
    let mut rng = SmallRng::seed_from_u64(seed);
    let server = RunningServer::with(&[
        "session.ping_interval=500ms",
        "session.pong_timeout=300ms",
        "session.reconnect_window=400ms",
    ]);
    let connections = Arc::new(AtomicUsize::new(0));
    let relay = Relay::new(server.public, {
        let connections = Arc::clone(&connections);
        move || match (connections.fetch_add(1, Ordering::AcqRel), rng.random_range(0..8)) {
            (BROKEN.., _) => Fate::Intact,
            // Cut within the response to the upgrade, the hello, or the replies.
            (_, 0..3) => Fate::Cut(rng.random_range(0..650)),
            (_, 3..7) => Fate::Cut(rng.random_range(500..10_000)),
            (_, _) => Fate::Silent(rng.random_range(0..10_000)),
        }
    });
    // Publish a first message to each channel: an empty log is removed with its last subscriber, and the next
    // subscriber would get a new log and a gap.
    let mut keeper = server.client();
    subscriptions.iter().for_each(|name| _ = keeper.subscribe(name));
    for channel in channels {
        server.admin.publish(channel, 0);
    }
    keeper.send(r#"{"close":{}}"#);
    let page = page(&server, relay.address, subscriptions);
    for channel in subscriptions {
        let is_subscribed = || page.values("reply").iter().any(|reply| reply["ok"]["channel"] == *channel);
        until(format!("the page subscribes to {channel}"), is_subscribed);
    }
    let last = publish_until(&server, &page, &channels, || connections.load(Ordering::Acquire) > BROKEN);
    let messages = usize::try_from(last).expect("the number fits into usize") * channels.len();
    page.await_object("message", messages);
    for channel in channels {
        assert_eq!(data(&page, channel), Vec::from_iter(1..=last), "{channel}");
    }
    assert_eq!((page.values("gap"), page.values("closed")), (vec![], vec![]));
}
