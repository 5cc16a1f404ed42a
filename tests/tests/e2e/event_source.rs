//! Third-party `EventSource` implementations: npm's `eventsource` and Chromium's.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

use encke_tests::waiting::{let_pass, until};
use encke_tests::{EventStream, Launch, RunningServer, Script};
use serde_json::{Value, json};

/// Number of messages by which the publisher may be ahead of the sources. Less than a channel's history.
const AHEAD: usize = 100;

/// `readyState` of a source that is going to reconnect.
const CONNECTING: u64 = 0;

/// A source that is subscribed to `news`, with its hello.
struct Source {
    script: Script,
    hello: Value,
}

impl Source {
    fn text(&self, field: &str) -> &str {
        self.hello[field].as_str().unwrap_or_else(|| panic!("no {field}: {}", self.hello))
    }

    #[track_caller]
    fn disconnect(&self, server: &RunningServer) {
        assert_eq!(server.admin.disconnect(self.text("session")).status, 204);
    }
}

/// Starts one source of each implementation.
#[track_caller]
fn subscribed_sources(server: &RunningServer) -> [Source; 2] {
    let address = server.public.to_string();
    let scripts = ["event_source.mjs", "event_source_page.mjs"]
        .map(|script| Script::start(script, &[&address, "news"]));
    scripts.map(|script| Source { hello: script.await_value("hello", 1), script })
}

/// Publishes 1, 2, 3 and so on until the sender of `stopped` is dropped. Returns the last number.
fn publish(server: &RunningServer, sources: &[Source], stopped: Receiver<()>) -> usize {
    let mut published = 0;
    while stopped.try_recv() != Err(TryRecvError::Disconnected) {
        published += 1;
        server.admin.publish("news", published);
        for source in sources {
            until("the source keeps up", || source.script.count("message") + AHEAD >= published);
        }
    }
    published
}

#[test]
fn source_that_is_disconnected_repeatedly_misses_nothing() {
    let server = RunningServer::with(&[]);
    let sources = subscribed_sources(&server);
    let published = std::thread::scope(|scope| {
        // Dropping this sender stops the publisher.
        let (running, stopped) = mpsc::channel();
        let publisher = scope.spawn(|| publish(&server, &sources, stopped));
        for cut in 1..=3 {
            for source in &sources {
                source.script.await_object("message", source.script.count("message") + 50);
                source.disconnect(&server);
            }
            for Source { script, hello } in &sources {
                let again = script.await_value("hello", cut + 1);
                assert_eq!((&again["recovered"], &again["session"]), (&json!(true), &hello["session"]));
            }
        }
        drop(running);
        publisher.join().expect("the publisher does not panic")
    });
    for Source { script, .. } in sources {
        script.await_object("message", published);
        let received: Vec<_> = script.values("message").into_iter().map(|mut it| it["data"].take()).collect();
        assert_eq!(received, Vec::from_iter((1..=published).map(Value::from)));
        assert_eq!(script.count("gap"), 0);
    }
}

#[test]
fn source_does_not_reconnect_after_a_take_over() {
    let server = RunningServer::with(&[]);
    let sources = subscribed_sources(&server);
    let others = sources.each_ref().map(|source| {
        let id = format!("{}:0", source.text("resume"));
        let mut other = EventStream::reconnect(server.public, "channels=news", &id);
        assert!(other.hello().recovered);
        assert_eq!(source.script.await_value("goaway", 1)["reason"], "replaced");
        assert_eq!(source.script.await_value("error", 1), CONNECTING);
        other
    });
    // A source that wanted to reconnect would do so after 3 s, the default of both implementations.
    let_pass(Duration::from_secs(4));
    for source in &sources {
        assert_eq!((source.script.count("hello"), source.script.count("error")), (1, 1));
        let events = [("opened", "connect"), ("resumed", "take_over")];
        server.logs.await_lifecycle(source.text("session"), &events);
    }
    drop(others);
}

#[test]
fn source_continues_in_a_new_session_after_expiry() {
    // The window is shorter than the second after which a source reconnects.
    let server = RunningServer::with(&["session.reconnect_window=200ms"]);
    let sources = subscribed_sources(&server);
    server.admin.publish("news", 1);
    for source in &sources {
        source.script.await_object("message", 1);
        source.disconnect(&server);
        server.await_removal(source.text("session"));
    }
    server.admin.publish("news", 2);
    for source in &sources {
        let again = source.script.await_value("hello", 2);
        assert_eq!(again["recovered"], false);
        assert_ne!(again["session"], source.hello["session"]);
        source.script.await_object("message", 2);
        let received: Vec<_> =
            source.script.values("message").into_iter().map(|mut it| it["data"].take()).collect();
        assert_eq!((received, source.script.count("gap")), (vec![json!(1), json!(2)], 0));
    }
}

/// The messages are lost with the process. The source receives a gap and then the messages published later.
#[test]
fn source_continues_with_a_restarted_server() {
    let first = RunningServer::with(&[]);
    let address = first.public.to_string();
    let sources = subscribed_sources(&first);
    first.admin.publish("news", 1);
    sources.iter().for_each(|source| _ = source.script.await_object("message", 1));
    drop(first);
    let second = Launch::listening_on(&address).start();
    for source in &sources {
        assert_eq!(source.script.await_value("hello", 2)["recovered"], false);
        let gap = source.script.await_value("gap", 1);
        assert_eq!((&gap["channel"], gap.get("from")), (&json!("news"), None));
    }
    second.admin.publish("news", 2);
    sources.iter().for_each(|source| assert_eq!(source.script.await_value("message", 2)["data"], 2));
}
