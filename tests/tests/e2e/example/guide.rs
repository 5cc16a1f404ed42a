use std::collections::HashSet;
use std::time::Duration;

use encke_tests::process::{Process, Signal};
use encke_tests::waiting::{TIMEOUT, eventually_within, let_pass, until};
use encke_tests::{RunningServer, Script};
use serde_json::{Value, json};

use super::{BACKEND, Example, SERVER, names};

const README: &str = include_str!("../../../../README.md");

/// What the guide has its reader type.
fn commands() -> Vec<&'static str> {
    let guide = README.split_once("\n## Guide\n").expect("the README has a guide").1;
    let guide = guide.split_once("\n## ").expect("it ends").0;
    let blocks = guide.split("```sh\n").skip(1).map(|rest| rest.split_once("```").expect("blocks end").0);
    blocks.flat_map(str::lines).collect()
}

/// What is on a page now.
fn on_page(pages: &Script, name: &str) -> Value {
    pages.values(name).pop().unwrap_or_default()
}

#[track_caller]
fn await_messages(pages: &Script, names: &[&str], messages: &[&str]) {
    for name in names {
        until(format!("{messages:?} at {name}: {}", pages.stderr_text()), || {
            on_page(pages, name)["messages"] == json!(messages)
        });
    }
}

/// Returns when the page has taken it.
#[track_caller]
fn tell(pages: &mut Script, command: &Value) {
    let before = pages.count("done");
    pages.send_command(command);
    pages.await_object("done", before + 1);
}

fn await_gone(server: &RunningServer, user: &str) {
    let is_gone = || server.admin.get(&format!("/api/sessions?user={user}")).json()["sessions"] == json!([]);
    until(format!("{user} has no session"), is_gone);
}

fn interrupt(mut process: Process) {
    process.signal(Signal::INT);
    assert_eq!(process.await_exit(TIMEOUT).code(), Some(0));
}

#[track_caller]
fn cut_alice(example: &Example, command: &str) {
    let output = example.shell(command).output().expect("there is a shell");
    assert_eq!(output.stdout, br#"{"sessions":1}"#, "{output:?}");
}

/// Whom the backend has on its list.
fn gone(example: &Example, command: &str) -> Vec<(Value, Value)> {
    let output = example.shell(command).output().expect("there is a shell");
    let gone: Vec<Value> = serde_json::from_slice(&output.stdout).expect("the backend answers JSON");
    gone.into_iter().map(|mut event| (event["user"].take(), event["event"].take())).collect()
}

#[test]
fn the_guide_word_for_word() {
    let [start_backend, start_server, cut, who_has_gone] = commands()[..] else {
        panic!("other commands than this test follows: {:?}", commands());
    };
    assert_eq!((start_backend, start_server), (BACKEND, SERVER));
    let example = Example::new();
    let backend = example.start_backend(start_backend);
    let mut server = example.launch(start_server).start();
    let both = ["alice", "bob"];
    let address = example.backend.address.to_string();
    let mut pages = Script::start("example.mjs", &[&[&*address], &both[..]].concat());
    for name in both {
        until(format!("{name} sees both: {}", pages.stderr_text()), || {
            let present = on_page(&pages, name)["present"].as_str().unwrap_or_default().to_owned();
            present.split(", ").collect::<HashSet<_>>() == HashSet::from(both)
        });
    }
    tell(&mut pages, &json!({"say": ["alice", "one"]}));
    await_messages(&pages, &both, &["alice: one"]);
    tell(&mut pages, &json!({"ask": ["bob"]}));
    until("the call is answered", || on_page(&pages, "bob")["gone"] == "nobody");

    cut_alice(&example, cut);
    tell(&mut pages, &json!({"say": ["bob", "two"]}));
    await_messages(&pages, &both, &["alice: one", "bob: two"]);

    server.while_stopped(|| {
        tell(&mut pages, &json!({"say": ["alice", "three"]}));
        let_pass(Duration::from_secs(1));
    });
    await_messages(&pages, &both, &["alice: one", "bob: two", "alice: three"]);

    server.signal(Signal::INT);
    assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
    tell(&mut pages, &json!({"say": ["bob", "four"]}));
    server = example.launch(start_server).start();
    await_messages(&pages, &both, &["alice: one", "bob: two", "alice: three", "bob: four"]);

    interrupt(backend);
    cut_alice(&example, cut);
    tell(&mut pages, &json!({"say": ["alice", "five"]}));
    let all = ["alice: one", "bob: two", "alice: three", "bob: four", "alice: five"];
    await_messages(&pages, &both, &all);
    tell(&mut pages, &json!({"leave": ["bob"]}));
    await_gone(&server, "bob");
    let backend = example.start_backend(start_backend);
    // A pause between two tries is up to 30 s.
    let bob = (json!("bob"), json!("session.closed"));
    eventually_within(TIMEOUT + Duration::from_secs(30), "bob has gone", || {
        (gone(&example, who_has_gone) == [bob.clone()]).then_some(())
    });
    await_messages(&pages, &["alice"], &all);
    tell(&mut pages, &json!({"leave": ["alice"]}));
    let alice = (json!("alice"), json!("session.closed"));
    until("alice has gone", || gone(&example, who_has_gone) == [bob.clone(), alice.clone()]);

    let events = example.events();
    let sessions: HashSet<_> = events.iter().filter_map(|event| event["session"].as_str()).collect();
    assert_eq!(sessions.len(), 2, "each has had one session throughout: {events:?}");
    for session in sessions {
        let names = names(&events, session);
        assert_eq!((names.first(), names.last()), (Some(&"session.opened"), Some(&"session.closed")));
    }
    let forged = json!({"events": [{"id": "x", "event": "session.closed", "session": "s", "number": 1}]});
    assert_eq!(example.post("/encke/events", &forged.to_string()).status, 401);
    assert_eq!(example.events(), events);
    interrupt(backend);
}
