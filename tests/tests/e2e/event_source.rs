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
    let arguments = [&*address, "news"];
    let scripts = [
        Script::start("event_source.mjs", &arguments),
        Script::start_in_browser("event_source_page.mjs", &arguments),
    ];
    scripts.map(|script| Source { hello: script.await_value("hello", 1), script })
}

/// Returns the data of all messages so far.
fn received(script: &Script) -> Vec<Value> {
    script.values("message").into_iter().map(|mut message| message["data"].take()).collect()
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

/// A source whose session was taken over does not reconnect.
#[test]
fn source_that_is_disconnected_repeatedly_misses_nothing() {
    const CUTS: usize = 3;
    let server = RunningServer::with(&[]);
    let sources = subscribed_sources(&server);
    let published = std::thread::scope(|scope| {
        // Dropping this sender stops the publisher.
        let (running, stopped) = mpsc::channel();
        let publisher = scope.spawn(|| publish(&server, &sources, stopped));
        for cut in 1..=CUTS {
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
    for Source { script, .. } in &sources {
        script.await_object("message", published);
        assert_eq!(received(script), Vec::from_iter((1..=published).map(Value::from)));
        assert_eq!(script.count("gap"), 0);
    }
    let errors = sources.each_ref().map(|source| source.script.count("error"));
    let _others: Vec<_> = (sources.iter().zip(errors))
        .map(|(source, errors)| {
            let id = format!("{}:0", source.text("resume"));
            let mut other = EventStream::reconnect(server.public, "channels=news", &id);
            assert!(other.hello().recovered);
            assert_eq!(source.script.await_value("goaway", CUTS + 1)["reason"], "replaced");
            assert_eq!(source.script.await_value("error", errors + 1), CONNECTING);
            other
        })
        .collect();
    // A source that wanted to reconnect would do so after 1 s, as it did before.
    let_pass(Duration::from_secs(3));
    for (source, errors) in sources.iter().zip(errors) {
        assert_eq!((source.script.count("hello"), source.script.count("error")), (CUTS + 1, errors + 1));
        let last = server.logs.lifecycle(source.text("session")).pop();
        assert_eq!(last, Some(("resumed".into(), "take_over".into())));
    }
}

/// The messages are lost when the server restarts. The source then receives a gap and the messages published
/// later.
#[test]
fn source_continues_in_a_new_session_after_expiry_and_after_a_restart() {
    // The window is shorter than the second after which a source reconnects.
    const WINDOW: &str = "session.reconnect_window=200ms";
    let server = RunningServer::with(&[WINDOW]);
    let address = server.public.to_string();
    let sources = subscribed_sources(&server);
    server.admin.publish("news", 1);
    for source in &sources {
        source.script.await_object("message", 1);
        source.disconnect(&server);
        server.await_removal(source.text("session"));
    }
    server.admin.publish("news", 2);
    for Source { script, hello } in &sources {
        let again = script.await_value("hello", 2);
        assert_eq!(again["recovered"], false);
        assert_ne!(again["session"], hello["session"]);
        script.await_object("message", 2);
        assert_eq!((received(script), script.count("gap")), (vec![json!(1), json!(2)], 0));
    }
    drop(server);
    let second = Launch::listening_on(&address).set(WINDOW).start();
    for Source { script, .. } in &sources {
        assert_eq!(script.await_value("hello", 3)["recovered"], false);
        let gap = script.await_value("gap", 1);
        assert_eq!((&gap["channel"], gap.get("from")), (&json!("news"), None));
    }
    second.admin.publish("news", 3);
    sources.iter().for_each(|source| assert_eq!(source.script.await_value("message", 3)["data"], 3));
}
