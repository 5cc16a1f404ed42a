//! What the README has under "In a browser", in Chromium. `ENCKE_SEED=<n>` gives the random test the same seed again.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use encke_tests::network::Link;
use encke_tests::process::Signal;
use encke_tests::relay::Fate;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{TIMEOUT, let_pass, until};
use encke_tests::{Launch, Relay, RunningServer, Script};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// How far ahead of the page is published, in messages: less than a channel keeps.
const AHEAD: usize = 100;

/// Soon, but with time for Chromium to answer on a busy machine.
const PINGS: [&str; 2] = ["session.ping_interval=1500ms", "session.pong_timeout=1200ms"];

/// A page of the server's origin that follows channels over connections to `sessions`.
fn page(server: &RunningServer, sessions: SocketAddr, channels: &[&str]) -> Script {
    let (address, sessions) = (server.public.to_string(), sessions.to_string());
    Script::start("session.mjs", &[&[&*address, &*sessions], channels].concat())
}

/// A page that follows `news`, with its hello.
#[track_caller]
fn follow(server: &RunningServer, sessions: SocketAddr) -> (Script, Value) {
    let page = page(server, sessions, &["news"]);
    page.await_object("reply", 1);
    let hello = page.await_value("hello", 1);
    (page, hello)
}

/// The id of the session of a hello.
fn id(hello: &Value) -> &str {
    hello["session"].as_str().expect("a hello has a session")
}

/// The page's `nth` hello is that of the session that it had.
#[track_caller]
fn assert_resumed(page: &Script, nth: usize, hello: &Value) {
    let again = page.await_value("hello", nth);
    assert_eq!((&again["recovered"], id(&again)), (&json!(true), id(hello)));
}

/// What came on a channel, in the order in which it came.
fn data(page: &Script, channel: &str) -> Vec<u64> {
    let messages = page.heard("message").into_iter().filter(|message| message["channel"] == channel);
    messages.map(|message| message["data"].as_u64().expect("numbers were published")).collect()
}

/// All of these come on `news`, once and in order, and nothing else.
#[track_caller]
fn assert_news(page: &Script, last: u64) {
    page.await_object("message", usize::try_from(last).expect("not that many"));
    assert_eq!(data(page, "news"), Vec::from_iter(1..=last));
}

fn publish(server: &RunningServer, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        server.admin.publish("news", number);
    }
}

/// A relay that waits until it is told about each connection; when it can be told no more, they last.
fn relay(server: &RunningServer) -> (mpsc::Sender<Fate>, Relay) {
    let (tell, fates) = mpsc::channel();
    (tell, Relay::new(server.public, move || fates.recv().unwrap_or(Fate::Whole)))
}

/// Lets the next connection have this fate.
fn next(fates: &mpsc::Sender<Fate>, fate: Fate) {
    fates.send(fate).expect("the relay is there");
}

/// Publishes 1, 2, 3 and so on on each channel until it is enough: the last.
fn publish_until(server: &RunningServer, page: &Script, channels: &[&str], enough: impl Fn() -> bool) -> u64 {
    let mut published = 0;
    while !enough() {
        published += 1;
        for channel in channels {
            server.admin.publish(channel, published);
        }
        let count = usize::try_from(published).expect("not that many") * channels.len();
        until("the page keeps up", || page.count("message") + AHEAD >= count);
    }
    published
}

#[test]
fn a_page_hears_what_is_published() {
    let server = RunningServer::with(&["limits.max_subscriptions=2"]);
    let page = page(&server, server.public, &["news", "chat", "more"]);
    for (id, channel) in [(0, "news"), (1, "chat")] {
        let reply = page.await_value("reply", id + 1);
        assert_eq!((&reply["id"], &reply["ok"]["channel"]), (&json!(id), &json!(channel)));
    }
    let refused = page.await_value("reply", 3);
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!("limit")));

    let said = [
        ("news", json!({ "text": "\"ü\u{1f30d}\u{2028}\n" })),
        ("chat", json!([1, null])),
        ("news", json!(0.5)),
    ];
    for (channel, data) in &said {
        server.admin.publish(channel, data.clone());
    }
    page.await_object("message", 3);
    let heard = page.heard("message");
    for (message, (seq, (channel, data))) in heard.iter().zip((1..).zip(&said)) {
        assert_eq!(
            (&message["seq"], &message["channel"], &message["data"]),
            (&json!(seq), &json!(channel), data)
        );
    }
    let socket = format!("ws://{}/ws?heartbeat=message", server.public);
    assert_eq!(page.heard("socket"), [json!(socket)]);
}

/// Its replies are not taken for those to subscriptions: the session outlasts a cut.
#[test]
fn a_page_publishes_and_keeps_its_session() {
    let server = RunningServer::with(&[]);
    let (mut page, hello) = follow(&server, server.public);
    for number in 1..=3 {
        page.tell(&json!({"publish": ["news", number]}));
        let id = page.await_value("published", number);
        let reply = page.await_value("reply", number + 1);
        assert_eq!((&reply["id"], &reply["ok"]["offset"]), (&id, &json!(number)));
    }
    assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
    assert_resumed(&page, 2, &hello);
    page.tell(&json!({"publish": ["news", 4]}));
    assert_news(&page, 4);
}

#[test]
fn a_page_that_closes_or_leaves_ends_its_session() {
    let server = RunningServer::with(&[]);
    for command in ["close", "leave"] {
        let (mut page, hello) = follow(&server, server.public);
        page.await_object("ready", 1);
        page.tell(&json!({ command: true }));
        server.await_gone(id(&hello));
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
    for (socket, token) in page.heard("socket").iter().zip(&tokens) {
        assert!(socket.as_str().is_some_and(|url| url.contains(&format!("token={token}"))), "{socket}");
    }
}

#[test]
fn a_page_that_is_disconnected_again_and_again_misses_nothing() {
    let server = RunningServer::with(&[]);
    let (page, hello) = follow(&server, server.public);
    let published = std::thread::scope(|scope| {
        // Until this is dropped.
        let (going_on, over) = mpsc::channel::<()>();
        let is_over = move || over.try_recv() == Err(TryRecvError::Disconnected);
        let publisher = scope.spawn(|| publish_until(&server, &page, &["news"], is_over));
        for cut in 1..=4 {
            page.await_object("message", page.count("message") + 50);
            assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
            assert_resumed(&page, cut + 1, &hello);
        }
        drop(going_on);
        publisher.join().expect("it publishes")
    });
    assert_news(&page, published);
    assert_eq!(page.count("gap"), 0);
    assert_eq!(server.admin.metrics().events("opened", "connect"), 1.0);
}

#[test]
fn a_page_whose_link_is_cut_is_back_when_it_is_mended() {
    let link = Link::new();
    let server = Launch::listening_on(&SocketAddr::new(link.address_here(), 0).to_string())
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
    link.mend();
    assert_resumed(&page, 2, &hello);
    publish(&server, [11]);
    assert_news(&page, 11);
    assert_eq!(page.count("gap"), 0);
}

/// No one tells it that its connection is dead. It is back before the server has noticed, or after.
#[test]
fn a_page_that_hears_nothing_comes_back_by_itself() {
    let settings = ["session.ping_interval=500ms", "session.pong_timeout=300ms"];
    let server = RunningServer::with(&settings);
    let (fates, relay) = relay(&server);
    // Enough for a head, a hello, a reply and a part of the messages.
    next(&fates, Fate::Silent(1_000));
    drop(fates);
    let (page, hello) = follow(&server, relay.address);
    publish(&server, 1..=20);
    assert_resumed(&page, 2, &hello);
    assert_news(&page, 20);
}

/// Its old connection, which is there all the time, is told that it was replaced; no one minds.
#[test]
fn a_page_comes_back_to_a_server_that_was_stopped() {
    let server = RunningServer::with(&PINGS);
    let (page, hello) = follow(&server, server.public);
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
fn a_page_that_is_not_answered_asks_again() {
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
fn a_page_answers_pings_and_acknowledges_what_it_has() {
    let server = RunningServer::with(&PINGS);
    let (page, hello) = follow(&server, server.public);
    publish(&server, 1..=5);
    until("all is acknowledged", || server.admin.session(id(&hello))["unacked"] == 0);
    assert_news(&page, 5);
    page.await_object("ping", 3);
    server.logs.await_lifecycle(id(&hello), &[("opened", "connect")]);
    assert_eq!(page.count("socket"), 1);
}

/// Its command may have arrived or not: it follows nothing that was not confirmed.
#[test]
fn a_page_that_is_cut_before_it_follows_begins_anew() {
    let server = RunningServer::with(&[]);
    let (fates, relay) = relay(&server);
    next(&fates, Fate::CutBefore("{\"reply\""));
    next(&fates, Fate::Whole);
    let (page, _) = follow(&server, relay.address);
    publish(&server, 1..=3);
    assert_news(&page, 3);
    let hellos = page.heard("hello");
    assert_eq!(hellos.len(), 2);
    assert_ne!(id(&hellos[0]), id(&hellos[1]));
}

#[test]
fn a_page_that_is_told_to_stay_away_does() {
    let server = RunningServer::with(&[]);
    let (kicked, of_kicked) = follow(&server, server.public);
    let (replaced, of_replaced) = follow(&server, server.public);
    assert_eq!(server.admin.kick(id(&of_kicked)).status, 204);
    let token = of_replaced["resume"].as_str().expect("a hello has a token");
    let _other = server.resume(token);
    assert_eq!(kicked.await_value("closed", 1), 4101);
    assert_eq!(replaced.await_value("closed", 1), 4100);
    // Otherwise they would be back in half a second.
    let_pass(Duration::from_secs(2));
    assert_eq!((kicked.count("socket"), replaced.count("socket")), (1, 1));
}

/// Each message comes once, whichever of its subscriptions brings it, and also when its session is gone.
#[test]
fn a_page_follows_patterns_that_overlap() {
    let server = RunningServer::with(&["session.reconnect_window=200ms"]);
    let channels = ["/a/b", "/a/*", "/**"];
    // It comes back no sooner than its session is gone.
    let (fates, relay) = relay(&server);
    next(&fates, Fate::Whole);
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
    server.await_gone(id(&hello));
    publish(7..=10);
    next(&fates, Fate::Whole);
    assert_eq!(page.await_value("hello", 2)["recovered"], false);
    page.await_object("reply", 2 * channels.len());
    publish(11..=14);
    page.await_object("message", 14);
    // The new session sent some again, and gave them seqs; the page says nothing of these.
    server.admin.publish("/end", 0);
    until("the last has come", || data(&page, "/end") == [0]);
    assert_eq!(data(&page, "/a/b"), [2, 4, 6, 8, 10, 12, 14]);
    assert_eq!(data(&page, "/a/c"), [1, 3, 5, 7, 9, 11, 13]);
    assert_eq!(page.count("gap"), 0);
}

/// Also if it is cut once more before it has heard anything of what it missed.
#[test]
fn a_page_whose_session_is_gone_goes_on_where_it_was() {
    let server = RunningServer::with(&["session.reconnect_window=200ms"]);
    let (fates, relay) = relay(&server);
    next(&fates, Fate::Whole);
    let (page, hello) = follow(&server, relay.address);
    publish(&server, 1..=5);
    page.await_object("message", 5);

    assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
    server.await_gone(id(&hello));
    publish(&server, 6..=8);
    next(&fates, Fate::CutBefore("{\"message\""));
    let hello = page.await_value("hello", 2);
    server.await_gone(id(&hello));
    publish(&server, [9]);
    next(&fates, Fate::Whole);
    let hello = page.await_value("hello", 3);
    assert_eq!((&hello["recovered"], &hello["seq"]), (&json!(false), &json!(0)));
    assert_news(&page, 9);
    assert_eq!(page.heard("message")[5]["seq"], 1);
    for nth in [2, 3] {
        assert_eq!(page.await_value("reply", nth)["ok"]["recovered"], true);
    }
    assert_eq!(page.count("gap"), 0);
}

/// Once, also if it is cut right after that, whether its session is still there or not.
#[test]
fn a_page_is_told_what_it_missed_for_good() {
    for (window, recovered) in [("60s", true), ("200ms", false)] {
        let window = format!("session.reconnect_window={window}");
        let server = RunningServer::with(&["channel.history_messages=4", &window]);
        let (fates, relay) = relay(&server);
        next(&fates, Fate::Whole);
        let (page, mut hello) = follow(&server, relay.address);
        publish(&server, [1, 2]);
        page.await_object("message", 2);

        assert_eq!(server.admin.disconnect(id(&hello)).status, 204);
        publish(&server, 3..=9);
        for (nth, fate) in [(2, Fate::CutBefore("{\"message\"")), (3, Fate::Whole)] {
            if !recovered {
                server.await_gone(id(&hello));
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

/// One that ends as it should, and says when to come back; and one that does not.
#[test]
fn a_page_goes_on_with_another_server() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut server = RunningServer::with(&[]);
        let relay = Relay::new(server.public, || Fate::Whole);
        let (page, hello) = follow(&server, relay.address);
        publish(&server, 1..=3);
        page.await_object("message", 3);
        server.signal(signal);
        server.await_exit(TIMEOUT);

        let server = RunningServer::with(&[]);
        publish(&server, 4..=5);
        relay.lead_to(server.public);
        let again = page.await_value("hello", 2);
        assert_eq!(again["recovered"], false);
        assert_ne!(id(&again), id(&hello));
        // What was lost with the first server, nobody knows.
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

/// Anywhere, one after the other; then they last. Some of its sessions are gone when it comes back.
#[test]
fn wherever_its_connections_break_a_page_hears_every_message_once_and_in_order() {
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    break_connections(seed, &["news", "chat"], ["news", "chat"]);
}

/// The same, where one of its subscriptions is a pattern, which brings what another brings as well.
#[test]
fn wherever_its_connections_break_a_page_that_follows_patterns_hears_every_message_once_and_in_order() {
    let seed = seed();
    println!("ENCKE_SEED={seed}");
    break_connections(seed, &["/n/news", "/n/*"], ["/n/news", "/n/chat"]);
}

fn seed() -> u64 {
    std::env::var("ENCKE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"))
}

fn break_connections(seed: u64, follows: &[&str], channels: [&str; 2]) {
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
            (BROKEN.., _) => Fate::Whole,
            // Within the answer to the upgrade, the hello, or the replies.
            (_, 0..3) => Fate::Cut(rng.random_range(0..650)),
            (_, 3..7) => Fate::Cut(rng.random_range(500..10_000)),
            (_, _) => Fate::Silent(rng.random_range(0..10_000)),
        }
    });
    // An empty log would end with its last subscriber; the next one's is another, which would be told in a gap.
    let mut keeper = server.client();
    follows.iter().for_each(|name| _ = keeper.subscribe(name));
    for channel in channels {
        server.admin.publish(channel, 0);
    }
    keeper.send(r#"{"close":{}}"#);
    let page = page(&server, relay.address, follows);
    for channel in follows {
        let followed = || page.heard("reply").iter().any(|reply| reply["ok"]["channel"] == *channel);
        until(format!("it follows {channel}"), followed);
    }
    let last = publish_until(&server, &page, &channels, || connections.load(Ordering::Acquire) > BROKEN);
    let messages = usize::try_from(last).expect("not that many") * channels.len();
    page.await_object("message", messages);
    for channel in channels {
        assert_eq!(data(&page, channel), Vec::from_iter(1..=last), "{channel}");
    }
    assert_eq!((page.heard("gap"), page.heard("closed")), (vec![], vec![]));
}
