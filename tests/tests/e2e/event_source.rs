//! EventSource as others have built it: npm's `eventsource`, and Chromium's.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

use encke_tests::waiting::{let_pass, until};
use encke_tests::{EventStream, Launch, RunningServer, Script};
use serde_json::{Value, json};

/// How far ahead of them is published, in messages: less than a channel keeps.
const AHEAD: usize = 100;

/// `readyState` of one that means to come back.
const CONNECTING: u64 = 0;

/// One that follows `news`, and its hello.
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

/// One of each.
#[track_caller]
fn follow(server: &RunningServer) -> [Source; 2] {
    let address = server.public.to_string();
    let scripts = ["event_source.mjs", "event_source_page.mjs"]
        .map(|script| Script::start(script, &[&address, "news"]));
    scripts.map(|script| Source { hello: script.await_value("hello", 1), script })
}

/// Publishes 1, 2, 3 and so on until it is over: the last.
fn publish(server: &RunningServer, sources: &[Source], over: Receiver<()>) -> usize {
    let mut published = 0;
    while over.try_recv() != Err(TryRecvError::Disconnected) {
        published += 1;
        server.admin.publish("news", published);
        for source in sources {
            until("it keeps up", || source.script.count("message") + AHEAD >= published);
        }
    }
    published
}

#[test]
fn disconnected_again_and_again_it_misses_nothing() {
    let server = RunningServer::with(&[]);
    let sources = follow(&server);
    let published = std::thread::scope(|scope| {
        // Until this is dropped.
        let (going_on, over) = mpsc::channel();
        let publisher = scope.spawn(|| publish(&server, &sources, over));
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
        drop(going_on);
        publisher.join().expect("it publishes")
    });
    for Source { script, .. } in sources {
        script.await_object("message", published);
        let heard: Vec<_> = script.heard("message").into_iter().map(|mut it| it["data"].take()).collect();
        assert_eq!(heard, Vec::from_iter((1..=published).map(Value::from)));
        assert_eq!(script.count("gap"), 0);
    }
}

#[test]
fn it_stays_away_when_its_session_is_taken_over() {
    let server = RunningServer::with(&[]);
    let sources = follow(&server);
    let others = sources.each_ref().map(|source| {
        let id = format!("{}:0", source.text("resume"));
        let mut other = EventStream::come_back(server.public, "channels=news", &id);
        assert!(other.hello().recovered);
        assert_eq!(source.script.await_value("goaway", 1)["reason"], "replaced");
        assert_eq!(source.script.await_value("error", 1), CONNECTING);
        other
    });
    // Otherwise they would be back after 3 s, which both wait unless they are told.
    let_pass(Duration::from_secs(4));
    for source in &sources {
        assert_eq!((source.script.count("hello"), source.script.count("error")), (1, 1));
        let events = [("opened", "connect"), ("resumed", "take_over")];
        server.logs.await_lifecycle(source.text("session"), &events);
    }
    drop(others);
}

#[test]
fn it_goes_on_in_a_new_session_when_its_own_is_gone() {
    // Shorter than the second after which it is to come back.
    let server = RunningServer::with(&["session.reconnect_window=200ms"]);
    let sources = follow(&server);
    server.admin.publish("news", 1);
    for source in &sources {
        source.script.await_object("message", 1);
        source.disconnect(&server);
        server.await_gone(source.text("session"));
    }
    server.admin.publish("news", 2);
    for source in &sources {
        let again = source.script.await_value("hello", 2);
        assert_eq!(again["recovered"], false);
        assert_ne!(again["session"], source.hello["session"]);
        source.script.await_object("message", 2);
        let heard: Vec<_> =
            source.script.heard("message").into_iter().map(|mut it| it["data"].take()).collect();
        assert_eq!((heard, source.script.count("gap")), (vec![json!(1), json!(2)], 0));
    }
}

/// Its messages are gone with the process. That is told, and what is published from then on is heard.
#[test]
fn it_outlives_the_process() {
    let first = RunningServer::with(&[]);
    let address = first.public.to_string();
    let sources = follow(&first);
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
