use std::time::{Duration, Instant};

use encke_tests::server::IN_MEMORY;
use encke_tests::tokens::{self, token, unix_time};
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, until};
use encke_tests::{Backend, Client, Hello, Launch, RunningServer};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{USERS, accepted_events, await_session, launch_with_webhook};

/// A suspended session keeps its user online for this long.
const OFFLINE_AFTER: Duration = Duration::from_millis(500);

fn launch(backend: &Backend, events: &str) -> Launch {
    launch_with_webhook(backend, events, "").set(&format!("auth.secret={}", tokens::SECRET))
}

/// Returns the names of the events of a user.
fn events_of_user(events: &[Value], user: &str) -> Vec<String> {
    let of_user = events.iter().filter(|event| event["session"].is_null() && event["user"] == user);
    of_user.map(|event| event["event"].as_str().expect("text").replace("user.", "")).collect()
}

/// Waits until exactly these events of a user have been accepted.
#[track_caller]
fn await_user(backend: &Backend, user: &str, expected: &[&str]) {
    until(format!("exactly the events {expected:?}"), || {
        events_of_user(&accepted_events(backend), user) == expected
    });
}

fn resume(server: &RunningServer, user: &str, hello: &Hello) -> Client {
    let query = format!("resume={}&token={}", hello.resume, token(user, json!({})));
    let client = Client::connect(server.public, &query);
    assert!(client.hello.recovered);
    client
}

#[test]
fn events_of_users_have_their_own_fields() {
    let backend = Backend::start();
    let server = launch(&backend, USERS).start();
    server.client_of("al\"ice").close();
    await_user(&backend, "al\"ice", &["online", "offline"]);
    for (event, name) in accepted_events(&backend).iter_mut().zip(["user.online", "user.offline"]) {
        let event = event.as_object_mut().expect("an object");
        let at_ms = event.remove("at_ms").and_then(|at| at.as_u64()).expect("at_ms");
        assert!(unix_time().as_secs().abs_diff(at_ms / 1000) <= TIMEOUT.as_secs(), "{at_ms}");
        assert!(event.remove("id").is_some_and(|id| id.is_string()));
        assert_eq!(Value::from(event.clone()), json!({"event": name, "user": "al\"ice"}));
    }
}

#[test]
fn a_user_with_two_sessions_is_online_until_the_last_one_ends() {
    let backend = Backend::start();
    let server = launch(&backend, USERS).start();
    let mut first = server.client_of("alice");
    let second = server.client_of("alice");
    let hello = server.suspend(second);
    let mut second = resume(&server, "alice", &hello);
    first.close();
    second.close();
    // The events of a user arrive in order, so there were no others before the last one.
    await_user(&backend, "alice", &["online", "offline"]);
}

#[test]
fn a_user_goes_offline_before_the_session_expires_and_comes_back_by_resuming() {
    let backend = Backend::start();
    let after = format!("session.offline_after={}ms", OFFLINE_AFTER.as_millis());
    let server = launch(&backend, USERS).set(&after).start();
    let client = server.client_of("alice");
    await_user(&backend, "alice", &["online"]);
    let lost_at = Instant::now();
    let hello = server.suspend(client);
    await_user(&backend, "alice", &["online", "offline"]);
    let offline_at = backend.requests().last().expect("a request").received_at;
    assert!(offline_at - lost_at >= OFFLINE_AFTER && offline_at - lost_at < OFFLINE_AFTER + MAX_LATENESS);
    let mut client = resume(&server, "alice", &hello);
    await_user(&backend, "alice", &["online", "offline", "online"]);
    client.close();
    await_user(&backend, "alice", &["online", "offline", "online", "offline"]);
}

#[test]
fn a_session_that_expires_makes_its_user_go_offline() {
    let backend = Backend::start();
    let server = launch(&backend, &format!("{USERS},\"session.expired\""));
    let server = server.set("session.reconnect_window=500ms").start();
    let hello = server.suspend(server.client_of("alice"));
    await_session(&backend, &hello.session, &[(3, "session.expired", "reconnect_window")]);
    await_user(&backend, "alice", &["online", "offline"]);
}

/// Alice and carol stay online until their sessions end in the second process. Bob is offline already.
#[test]
fn events_are_not_repeated_after_a_restart() {
    let backend = Backend::start();
    let folder = TempDir::new().expect("a temporary directory can be created");
    let snapshot = format!("shutdown.snapshot={}", folder.path().join("snapshot").display());
    let start = |after| {
        // The next process would have another Redis.
        let launch =
            launch(&backend, USERS).set(IN_MEMORY).set(&snapshot).set("session.reconnect_window=60s");
        launch.set(&format!("session.offline_after={after}")).start()
    };
    let mut server = start("300ms");
    let bob = server.suspend(server.client_of("bob"));
    await_user(&backend, "bob", &["online", "offline"]);
    let [alice, carol] = ["alice", "carol"].map(|user| server.client_of(user));
    server.stop();
    let server = start("off");
    resume(&server, "alice", &alice.hello).close();
    server.admin.kick(&carol.hello.session);
    resume(&server, "bob", &bob).close();
    for (user, expected) in [("alice", 1), ("bob", 2), ("carol", 1)] {
        await_user(&backend, user, &["online", "offline"].repeat(expected));
    }
}

#[test]
fn users_go_offline_when_the_server_stops_without_a_snapshot() {
    let backend = Backend::start();
    let mut server = launch(&backend, USERS).start();
    let client = server.client_of("alice");
    let _bob = server.client_of("bob");
    server.suspend(client);
    server.stop();
    for user in ["alice", "bob"] {
        assert_eq!(events_of_user(&accepted_events(&backend), user), ["online", "offline"]);
    }
}
