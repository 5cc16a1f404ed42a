use std::time::Duration;

use encke_tests::process::Signal;
use encke_tests::redis::Redis;
use encke_tests::{Client, RunningServer, ServerOutput};

use super::{await_connected, launch};
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
    assert_eq!(next_message(&mut client)["joined"], anonymous(&client.hello));
    client
}

#[test]
fn joins_and_leaves_are_published_on_all_servers() {
    let redis = Redis::start();
    let [staying, mut stopped, killed] = [(); 3].map(|()| node(&redis));
    let mut first = subscriber(&staying);
    let mut by_pattern = killed.client();
    by_pattern.subscribe("/room/*");
    let leaving = subscriber(&stopped);
    let leaving_is = anonymous(&leaving.hello);
    assert_eq!(next_message(&mut first), presence_message(2, "joined", &leaving_is));
    assert_eq!(next_message(&mut by_pattern)["joined"], leaving_is);
    // A graceful shutdown publishes leaves.
    stopped.terminate();
    assert_eq!(next_message(&mut first), presence_message(3, "left", &leaving_is));
    assert_eq!(next_message(&mut by_pattern)["left"], leaving_is);
    assert_eq!(stopped.await_exit().code(), Some(0));
    // Joins and leaves are in the log, like all messages.
    let history = killed.admin.get("/api/channels/%2Froom%2Fx/history?since=1").json();
    let messages = &history["messages"];
    assert_eq!([&messages[0]["joined"], &messages[1]["left"]], [&leaving_is; 2], "{history}");
    let mut late = killed.client();
    late.request(r#"{"id":1,"subscribe":{"channel":"/room/x","last":2}}"#);
    assert_eq!(next_message(&mut late), presence_message(2, "joined", &leaving_is));
    assert_eq!(next_message(&mut late), presence_message(3, "left", &leaving_is));
    assert_eq!(next_message(&mut first)["joined"], anonymous(&late.hello));
    // A kill publishes none.
    killed.signal(Signal::KILL);
    let output = first.next_within(Duration::from_millis(300));
    assert!(matches!(output, None | Some(ServerOutput::Ping(_))), "{output:?}");
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
    let mut leaving = subscriber(&restarts.server);
    let leaving_is = anonymous(&leaving.hello);
    assert_eq!(next_message(&mut client)["joined"], leaving_is);
    redis.kill();
    await_connected(&restarts.server, false);
    restarts.server.admin.kick(&leaving.hello.session);
    assert_eq!(leaving.close_code(), Some(4101), "the kick does not wait for Redis");
    restarts.stop();
    let text = restarts.show_snapshot().stdout;
    let expected = format!(r#"session {}: left "/room/x", not published yet"#, leaving.hello.session);
    assert!(text.contains(&expected), "{text}");
    redis.restart();
    restarts.start();
    // An event may be repeated if Redis did not reply in time.
    while client.object()["message"]["left"] != leaving_is {}
}
