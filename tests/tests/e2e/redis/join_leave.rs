use std::time::Duration;

use encke_tests::process::Signal;
use encke_tests::redis::Redis;
use encke_tests::server::run_to_end;
use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Client, RunningServer, ServerOutput};
use serde_json::{Value, json};

use super::launch;
use crate::join_leave::{JOIN_LEAVE_RULE, anonymous, next_message, presence_message};
use crate::restart::RestartableServer;

#[track_caller]
fn node(redis: &Redis) -> RunningServer {
    launch(redis).set(JOIN_LEAVE_RULE).start()
}

/// Connects a client that subscribes to the room and receives its own join.
#[track_caller]
fn subscriber(node: &RunningServer) -> Client {
    let mut client = node.client();
    client.subscribe("/room/x");
    let own = next_message(&mut client);
    assert_eq!(own["joined"], anonymous(&client.hello));
    client
}

/// Reads until this event arrives. An event may be repeated if Redis did not reply in time, and may be
/// missing if Redis was killed.
#[track_caller]
fn await_event(client: &mut Client, kind: &str, member: &Value) {
    while client.object()["message"][kind] != *member {}
}

#[test]
fn joins_and_leaves_are_published_on_all_servers() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis), node(&redis)];
    let mut first = subscriber(&nodes[0]);
    let mut by_pattern = nodes[1].client();
    by_pattern.subscribe("/room/*");
    let second = subscriber(&nodes[1]);
    assert_eq!(next_message(&mut first), presence_message(2, "joined", &anonymous(&second.hello)));
    assert_eq!(next_message(&mut by_pattern)["joined"], anonymous(&second.hello));
    nodes[1].admin.kick(&second.hello.session);
    assert_eq!(next_message(&mut first), presence_message(3, "left", &anonymous(&second.hello)));
    assert_eq!(next_message(&mut by_pattern)["left"], anonymous(&second.hello));
    // Joins and leaves are in the log, like all messages.
    let mut history = nodes[2].admin.get("/api/channels/%2Froom%2Fx/history?since=1").json();
    let messages = history["messages"].as_array_mut().expect("a list");
    messages.iter_mut().for_each(|message| _ = message.as_object_mut().and_then(|it| it.remove("age_ms")));
    let second_is = anonymous(&second.hello);
    let expected = json!([{"offset": 2, "joined": second_is}, {"offset": 3, "left": second_is}]);
    assert_eq!(history["messages"], expected);
    let mut late = nodes[2].client();
    late.request(r#"{"id":1,"subscribe":{"channel":"/room/x","last":2}}"#);
    assert_eq!(next_message(&mut late), presence_message(2, "joined", &second_is));
    assert_eq!(next_message(&mut late), presence_message(3, "left", &second_is));
}

#[test]
fn a_graceful_shutdown_publishes_leaves_and_a_kill_does_not() {
    let redis = Redis::start();
    let [staying, mut stopped, killed] = [(); 3].map(|()| node(&redis));
    let mut client = subscriber(&staying);
    let leaving = subscriber(&stopped);
    let lost = subscriber(&killed);
    assert_eq!(next_message(&mut client)["joined"], anonymous(&leaving.hello));
    assert_eq!(next_message(&mut client)["joined"], anonymous(&lost.hello));
    stopped.terminate();
    assert_eq!(next_message(&mut client)["left"], anonymous(&leaving.hello));
    assert_eq!(stopped.await_exit(TIMEOUT).code(), Some(0));
    killed.signal(Signal::KILL);
    let output = client.next_within(Duration::from_millis(300));
    assert!(matches!(output, None | Some(ServerOutput::Ping(_))), "{output:?}");
}

#[test]
fn leaves_survive_an_unavailable_redis() {
    let mut redis = Redis::persistent();
    let nodes = [node(&redis), node(&redis)];
    let mut client = subscriber(&nodes[0]);
    let [mut leaving, other] = [(); 2].map(|()| subscriber(&nodes[1]));
    redis.process().while_stopped(|| {
        nodes[1].admin.kick(&leaving.hello.session);
        assert_eq!(leaving.close_code(), Some(4101), "the kick does not wait for Redis");
    });
    await_event(&mut client, "left", &anonymous(&leaving.hello));
    redis.kill();
    until("the server notices the failure", || nodes[1].admin.metrics().value("encke_engine_up") == 0.0);
    nodes[1].admin.kick(&other.hello.session);
    redis.restart();
    await_event(&mut client, "left", &anonymous(&other.hello));
    assert_eq!(nodes[1].admin.metrics().value("encke_join_leave_lost_total"), 0.0);
}

/// A server that shuts down while Redis is unavailable passes unpublished leaves on to the next process.
#[test]
fn unpublished_leaves_survive_a_restart() {
    let mut redis = Redis::persistent();
    let engine = format!("engine.url={}", redis.url());
    let mut restarts =
        RestartableServer::with(&[JOIN_LEAVE_RULE, "engine.kind=redis", &engine, "shutdown.drain=1s"]);
    let other = node(&redis);
    let mut client = subscriber(&other);
    let leaving = subscriber(&restarts.server);
    assert_eq!(next_message(&mut client)["joined"], anonymous(&leaving.hello));
    redis.kill();
    until("the server notices the failure", || {
        restarts.server.admin.metrics().value("encke_engine_up") == 0.0
    });
    restarts.server.admin.kick(&leaving.hello.session);
    restarts.stop();
    let output = run_to_end(&["snapshot", "show", &restarts.path().display().to_string()], &[]);
    let text = String::from_utf8(output.stdout).expect("the output is text");
    let expected = format!(r#"session {}: left "/room/x", not published yet"#, leaving.hello.session);
    assert!(text.contains(&expected), "{text}");
    redis.restart();
    restarts.start();
    await_event(&mut client, "left", &anonymous(&leaving.hello));
}
