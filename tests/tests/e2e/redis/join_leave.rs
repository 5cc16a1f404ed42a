use std::time::Duration;

use encke_tests::process::Signal;
use encke_tests::redis::Redis;
use encke_tests::server::run_to_end;
use encke_tests::waiting::{TIMEOUT, until};
use encke_tests::{Client, RunningServer, ServerOutput};
use serde_json::{Value, json};

use super::launch;
use crate::join_leave::{JOIN_LEAVE_RULE, next_message, anonymous, presence_message};
use crate::restart::Restarts;

#[track_caller]
fn node(redis: &Redis) -> RunningServer {
    launch(redis).set(JOIN_LEAVE_RULE).start()
}

/// A client that follows the room, and is told of itself.
#[track_caller]
fn follower(node: &RunningServer) -> Client {
    let mut client = node.client();
    client.subscribe("/room/x");
    let itself = next_message(&mut client);
    assert_eq!(itself["joined"], anonymous(&client.hello));
    client
}

/// Reads on until this is told. Whoever asks a Redis again that has not answered may tell it twice; one that was killed may have lost something.
#[track_caller]
fn await_told(client: &mut Client, kind: &str, of: &Value) {
    while client.object()["message"][kind] != *of {}
}

#[test]
fn who_comes_and_who_goes_is_told_on_all_servers() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis), node(&redis)];
    let mut first = follower(&nodes[0]);
    let mut by_pattern = nodes[1].client();
    by_pattern.subscribe("/room/*");
    let second = follower(&nodes[1]);
    assert_eq!(next_message(&mut first), presence_message(2, "joined", &anonymous(&second.hello)));
    assert_eq!(next_message(&mut by_pattern)["joined"], anonymous(&second.hello));
    nodes[1].admin.kick(&second.hello.session);
    assert_eq!(next_message(&mut first), presence_message(3, "left", &anonymous(&second.hello)));
    assert_eq!(next_message(&mut by_pattern)["left"], anonymous(&second.hello));
    // It is in the log, like all that is published.
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
fn a_server_that_ends_tells_who_goes_with_it_and_one_that_dies_does_not() {
    let redis = Redis::start();
    let [stays, mut ends, dies] = [(); 3].map(|()| node(&redis));
    let mut client = follower(&stays);
    let goes = follower(&ends);
    let lost = follower(&dies);
    assert_eq!(next_message(&mut client)["joined"], anonymous(&goes.hello));
    assert_eq!(next_message(&mut client)["joined"], anonymous(&lost.hello));
    ends.terminate();
    assert_eq!(next_message(&mut client)["left"], anonymous(&goes.hello));
    assert_eq!(ends.await_exit(TIMEOUT).code(), Some(0));
    dies.signal(Signal::KILL);
    let said = client.next_within(Duration::from_millis(300));
    assert!(matches!(said, None | Some(ServerOutput::Ping(_))), "{said:?}");
}

#[test]
fn nothing_is_lost_while_redis_stands_still_or_is_away() {
    let mut redis = Redis::with(&["--appendonly", "yes"]);
    let nodes = [node(&redis), node(&redis)];
    let mut client = follower(&nodes[0]);
    let [mut goes, other] = [(); 2].map(|()| follower(&nodes[1]));
    redis.process().while_stopped(|| {
        nodes[1].admin.kick(&goes.hello.session);
        assert_eq!(goes.close_code(), Some(4101), "nobody waits for Redis");
    });
    await_told(&mut client, "left", &anonymous(&goes.hello));
    redis.kill();
    until("it is known", || nodes[1].admin.metrics().value("encke_engine_up") == 0.0);
    nodes[1].admin.kick(&other.hello.session);
    redis.restart();
    await_told(&mut client, "left", &anonymous(&other.hello));
    assert_eq!(nodes[1].admin.metrics().value("encke_join_leave_lost_total"), 0.0);
}

/// A server that ends meanwhile leaves it to the next process.
#[test]
fn what_redis_does_not_take_outlives_the_server() {
    let mut redis = Redis::with(&["--appendonly", "yes"]);
    let engine = format!("engine.url={}", redis.url());
    let mut restarts = Restarts::with(&[JOIN_LEAVE_RULE, "engine.kind=redis", &engine, "shutdown.drain=1s"]);
    let other = node(&redis);
    let mut client = follower(&other);
    let goes = follower(&restarts.server);
    assert_eq!(next_message(&mut client)["joined"], anonymous(&goes.hello));
    redis.kill();
    until("it is known", || restarts.server.admin.metrics().value("encke_engine_up") == 0.0);
    restarts.server.admin.kick(&goes.hello.session);
    restarts.stop();
    let shown = run_to_end(&["snapshot", "show", &restarts.path().display().to_string()], &[]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    let expected = format!(r#"session {}: left "/room/x", not published yet"#, goes.hello.session);
    assert!(shown.contains(&expected), "{shown}");
    redis.restart();
    restarts.start();
    await_told(&mut client, "left", &anonymous(&goes.hello));
}
