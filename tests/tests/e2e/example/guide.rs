use std::collections::HashSet;
use std::time::Duration;

use encke_tests::process::{Process, Signal};
use encke_tests::waiting::{TIMEOUT, eventually_within, let_pass, until};
use encke_tests::{RunningServer, Script};
use serde_json::{Value, json};

use super::{BACKEND, Example, SERVER, names};

const GUIDE: &str = include_str!("../../../../server/docs/guides/chat.md");

/// Returns the commands that the guide asks its reader to type.
fn commands() -> Vec<&'static str> {
    let blocks = GUIDE.split("```sh\n").skip(1).map(|rest| rest.split_once("```").expect("blocks end").0);
    blocks.flat_map(str::lines).collect()
}

/// Returns the current contents of a page.
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

/// Sends a command to the pages and waits until it is done.
#[track_caller]
fn run_command(pages: &mut Script, command: &Value) {
    let before = pages.count("done");
    pages.send_command(command);
    pages.await_object("done", before + 1);
}

fn await_no_session(server: &RunningServer, user: &str) {
    let has_no_session =
        || server.admin.get(&format!("/api/sessions?user={user}")).json()["sessions"] == json!([]);
    until(format!("{user} has no session"), has_no_session);
}

fn interrupt(mut process: Process) {
    process.signal(Signal::INT);
    assert_eq!(process.await_exit().code(), Some(0));
}

#[track_caller]
fn disconnect_alice(example: &Example, command: &str) {
    let output = example.shell(command).output().expect("sh is installed");
    assert_eq!(output.stdout, br#"{"sessions":1}"#, "{output:?}");
}

/// Returns the users and events on the backend's list of departures.
fn departures(example: &Example, command: &str) -> Vec<(Value, Value)> {
    let output = example.shell(command).output().expect("sh is installed");
    let listed: Vec<Value> = serde_json::from_slice(&output.stdout).expect("the backend answers JSON");
    listed.into_iter().map(|mut event| (event["user"].take(), event["event"].take())).collect()
}

#[test]
fn guide_works_word_for_word() {
    let [start_backend, start_server, disconnect, list_departures] = commands()[..] else {
        panic!("unexpected commands in the guide: {:?}", commands());
    };
    assert_eq!((start_backend, start_server), (BACKEND, SERVER));
    let example = Example::new();
    let backend = example.start_backend(start_backend);
    let mut server = example.launch(start_server).start();
    let both = ["alice", "bob"];
    let address = example.backend.address.to_string();
    let mut pages = Script::start_in_browser("example.mjs", &[&[&*address], &both[..]].concat());
    for name in both {
        until(format!("{name} sees both: {}", pages.stderr_text()), || {
            let present = on_page(&pages, name)["present"].as_str().unwrap_or_default().to_owned();
            present.split(", ").collect::<HashSet<_>>() == HashSet::from(both)
        });
    }
    run_command(&mut pages, &json!({"say": ["alice", "one"]}));
    await_messages(&pages, &both, &["alice: one"]);
    run_command(&mut pages, &json!({"ask": ["bob"]}));
    until("the call is answered", || on_page(&pages, "bob")["gone"] == "nobody");

    disconnect_alice(&example, disconnect);
    run_command(&mut pages, &json!({"say": ["bob", "two"]}));
    await_messages(&pages, &both, &["alice: one", "bob: two"]);

    server.while_stopped(|| {
        run_command(&mut pages, &json!({"say": ["alice", "three"]}));
        let_pass(Duration::from_secs(1));
    });
    await_messages(&pages, &both, &["alice: one", "bob: two", "alice: three"]);

    server.signal(Signal::INT);
    assert_eq!(server.await_exit().code(), Some(0));
    run_command(&mut pages, &json!({"say": ["bob", "four"]}));
    server = example.launch(start_server).start();
    await_messages(&pages, &both, &["alice: one", "bob: two", "alice: three", "bob: four"]);

    interrupt(backend);
    disconnect_alice(&example, disconnect);
    run_command(&mut pages, &json!({"say": ["alice", "five"]}));
    let all = ["alice: one", "bob: two", "alice: three", "bob: four", "alice: five"];
    await_messages(&pages, &both, &all);
    run_command(&mut pages, &json!({"leave": ["bob"]}));
    await_no_session(&server, "bob");
    let backend = example.start_backend(start_backend);
    // The pause between two delivery attempts is up to 30 s.
    let bob = (json!("bob"), json!("session.closed"));
    eventually_within(TIMEOUT + Duration::from_secs(30), "the backend lists bob", || {
        (departures(&example, list_departures) == [bob.clone()]).then_some(())
    });
    await_messages(&pages, &["alice"], &all);
    run_command(&mut pages, &json!({"leave": ["alice"]}));
    let alice = (json!("alice"), json!("session.closed"));
    until("the backend lists alice", || {
        departures(&example, list_departures) == [bob.clone(), alice.clone()]
    });

    let events = example.events();
    let sessions: HashSet<_> = events.iter().filter_map(|event| event["session"].as_str()).collect();
    assert_eq!(sessions.len(), 2, "each user has had one session: {events:?}");
    for session in sessions {
        let names = names(&events, session);
        assert_eq!((names.first(), names.last()), (Some(&"session.opened"), Some(&"session.closed")));
    }
    let forged = json!({"events": [{"id": "x", "event": "session.closed", "session": "s", "number": 1}]});
    assert_eq!(example.post("/encke/events", &forged.to_string()).status, 401);
    assert_eq!(example.events(), events);
    interrupt(backend);
}
