use std::time::{Duration, Instant, SystemTime};

use encke_tests::RunningServer;
use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, client_id, connect, connect_now,
    disconnect, events, handshake, publish, session, subscribe, with_field,
};
use encke_tests::process::Signal;
use encke_tests::server::IN_MEMORY;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::TIMEOUT;
use serde_json::{Value, json};

use super::{assert_refused_with_any_code, await_held, connect_reply, timing};

/// If the first connect were held, aiocometd would wait forever. The reply repeats the timeouts.
#[test]
fn the_first_connect_is_answered_at_once() {
    // The hold is longer than the test waits.
    let server = RunningServer::with(&["session.poll_hold=50s"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.handshake();
    let reply = polls.reply(&connect(&id));
    assert_successful(&reply);
    assert_eq!((&reply["channel"], &reply["id"]), (&json!("/meta/connect"), &json!("c")));
    assert_eq!(reply["advice"]["reconnect"], "retry");
    assert_eq!(timing(&reply["advice"]), json!([50_000, 0, 120_000]));
}

#[test]
fn later_connects_are_held_until_there_is_a_message() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    for number in 1..=3 {
        polls.send(&json!([connect(&id)]));
        await_held(&server, &id);
        server.admin.publish("/news", number);
        let answer = polls.response();
        assert_eq!(answer.len(), 2, "{answer:?}");
        assert_eq!((&answer[0]["channel"], &answer[0]["data"]), (&json!("/news"), &json!(number)));
        assert_eq!(answer[0].get("successful"), None);
        assert_successful(connect_reply(&answer));
    }
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

/// A connect is held for the server's `poll_hold` or for the time that the client asks for, whichever is
/// shorter.
#[test]
fn connect_without_messages_is_answered_after_its_hold() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    for (advice, held) in
        [(json!({}), 1_000), (json!({"timeout": 400}), 400), (json!({"timeout": 600_000}), 1_000)]
    {
        let from = Instant::now();
        let reply = polls.reply(&with_field(connect(&id), "advice", advice.clone()));
        assert_successful(&reply);
        assert!(from.elapsed() >= Duration::from_millis(held), "{advice}: {:?}", from.elapsed());
    }
}

#[test]
fn connect_without_a_hold_or_in_a_shared_request_is_answered_at_once() {
    let server = RunningServer::with(&[IN_MEMORY, "session.poll_hold=50s"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    assert_successful(&polls.reply(&connect_now(&id)));
    let answer = polls.request(&json!([connect(&id), subscribe(&id, "/news")]));
    assert_eq!(answer.len(), 2, "{answer:?}");
    assert_eq!(answer[0]["channel"], "/meta/subscribe");
    assert_successful(&answer[0]);
    assert_successful(connect_reply(&answer));
    // Messages come first, then replies; the reply to the connect is last.
    let answer = polls.request(&json!([connect(&id), publish(&id, "/news", 1), publish(&id, "/news", 2)]));
    assert_eq!(events(&answer), [1, 2]);
    assert_successful(connect_reply(&answer));
    assert_eq!(answer.len(), 5, "{answer:?}");
}

#[test]
fn unknown_client_is_advised_to_handshake() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    assert_successful(&polls.reply(&disconnect(&id)));
    for message in [connect(&id), connect_now(&id), subscribe(&id, "/x"), publish(&id, "/x", 1)] {
        let reply = polls.reply(&message);
        assert_refused(&reply, "402");
        assert_eq!((&reply["channel"], &reply["id"]), (&message["channel"], &message["id"]));
        assert_eq!(reply["advice"]["reconnect"], "handshake", "{reply}");
    }
    let mut nameless = connect(&id);
    nameless.as_object_mut().expect("an object").remove("clientId");
    assert_refused_with_any_code(&polls.reply(&nameless));
}

/// Two clients with the same id do not keep replacing each other: the first is advised to pause, and the next
/// answer after that ends the pause.
#[test]
fn a_second_connect_answers_the_first() {
    let server = RunningServer::with(&[]);
    let mut first = BayeuxPolling::connect(server.public);
    let id = first.open(&["/news"]);
    first.send(&connect(&id));
    await_held(&server, &id);
    let mut second = BayeuxPolling::connect(server.public);
    second.send(&with_field(connect(&id), "id", "second"));
    let superseded = first.response();
    assert_eq!(events(&superseded), [] as [i32; 0]);
    let advice = &connect_reply(&superseded)["advice"];
    assert!(advice["interval"].as_u64().is_some_and(|pause_ms| pause_ms >= 1_000), "{superseded:?}");
    await_held(&server, &id);
    server.admin.publish("/news", 1);
    let answer = second.response();
    assert_eq!(events(&answer), [1]);
    assert_eq!(connect_reply(&answer)["id"], "second");
    assert_eq!(connect_reply(&answer)["advice"]["interval"], 0, "{answer:?}");
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

/// An administrator drops the connection. The client reconnects and is not slowed down after that.
#[test]
fn dropped_client_is_advised_to_pause_and_then_not_any_more() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    polls.send(&connect(&id));
    await_held(&server, &id);
    assert_eq!(server.admin.disconnect(&session(&id)).status, 204);
    let answer = polls.response();
    let advice = &connect_reply(&answer)["advice"];
    assert_eq!(advice["reconnect"], "retry", "{answer:?}");
    let paused = advice["interval"].as_u64().is_some_and(|pause_ms| pause_ms > 0);
    server.admin.publish("/news", 1);
    let answer = polls.request(&connect(&id));
    assert_eq!(events(&answer), [1]);
    if paused {
        assert_eq!(connect_reply(&answer)["advice"]["interval"], 0, "{answer:?}");
    }
}

#[test]
fn a_disconnect_ends_the_session_and_releases_its_connect() {
    let server = RunningServer::with(&[]);
    let mut held = BayeuxPolling::connect(server.public);
    let id = held.open(&["/news"]);
    held.send(&connect(&id));
    await_held(&server, &id);
    let mut other = BayeuxPolling::connect(server.public);
    let reply = other.reply(&disconnect(&id));
    assert_successful(&reply);
    assert_eq!((&reply["channel"], &reply["id"]), (&json!("/meta/disconnect"), &json!("d")));
    assert_eq!(connect_reply(&held.response())["id"], "c");
    server.await_removal(&session(&id));
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect"), ("closed", "client")]);
    assert_refused(&other.reply(&disconnect(&id)), "402");
    assert_refused(&held.reply(&connect(&id)), "402");
}

/// The disconnect takes effect immediately, even if its request contains other messages.
#[test]
fn messages_in_the_request_of_a_disconnect_are_processed_first() {
    let server = RunningServer::with(&[]);
    let mut witness = BayeuxPolling::connect(server.public);
    let witness_id = witness.open(&["/news"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    let answer = polls.request(&json!([publish(&id, "/news", "goodbye"), disconnect(&id)]));
    answer.iter().for_each(assert_successful);
    assert_eq!(answer.len(), 2, "{answer:?}");
    server.await_removal(&session(&id));
    assert_eq!(events(&witness.request(&connect(&witness_id))), ["goodbye"]);
}

/// A client that leaves may send its connect in the same request. The connect is answered like a held one,
/// because the client asked to end the session.
#[test]
fn connect_in_the_request_of_a_disconnect_is_answered() {
    let server = RunningServer::with(&[]);
    let orders: [fn(&str) -> Value; 2] =
        [|id| json!([connect(id), disconnect(id)]), |id| json!([disconnect(id), connect(id)])];
    for leave in orders {
        let mut polls = BayeuxPolling::connect(server.public);
        let id = polls.open(&[]);
        assert_both_answered(polls.request(&leave(&id)));
        server.await_removal(&session(&id));
        // The same over two WebSockets: one that has the session, and one without a session.
        let mut socket = BayeuxWebSocket::connect(server.public);
        let id = socket.open(&[]);
        socket.send(&leave(&id));
        assert_both_answered(two_messages(&mut socket));
        let id = polls.open(&[]);
        let mut socket = BayeuxWebSocket::connect(server.public);
        socket.send(&leave(&id));
        assert_both_answered(two_messages(&mut socket));
    }
}

#[track_caller]
fn assert_both_answered(mut replies: Vec<Value>) {
    replies.sort_by_key(|reply| reply["channel"].as_str().unwrap_or_default().to_owned());
    assert_eq!(replies.len(), 2, "{replies:?}");
    replies.iter().for_each(assert_successful);
    assert_eq!(replies[0]["channel"], "/meta/connect");
    assert_eq!(replies[0]["advice"]["reconnect"], "none", "{replies:?}");
}

#[track_caller]
fn two_messages(socket: &mut BayeuxWebSocket) -> Vec<Value> {
    let mut messages = socket.messages();
    while messages.len() < 2 {
        messages.extend(socket.messages());
    }
    messages
}

/// The client's token has expired, but the client has the session's secret.
#[test]
fn a_client_without_a_valid_token_may_end_its_session() {
    let server = RunningServer::with(&[&format!("auth.secret={SECRET}")]);
    let now =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is after 1970").as_secs();
    let token = sign(&json!({"sub": "alice", "exp": now + 2, "channels": {"*": ["subscribe"]}}), SECRET);
    let hello = with_field(handshake(), "ext", json!({"authentication": {"token": token}}));
    let mut polls = BayeuxPolling::connect(server.public);
    let [id, ids @ ..] = [(); 5].map(|()| client_id(&polls.reply(&hello)));
    ids.iter().chain([&id]).for_each(|id| server.await_phase(&session(id), "suspended"));
    for other in [connect(&id), subscribe(&id, "/x")] {
        assert_refused(&polls.reply(&other), "401");
    }
    assert_successful(&polls.reply(&disconnect(&id)));
    server.await_removal(&session(&id));
    // A connect in the same request is not advised to reconnect either.
    for (number, id) in ids.iter().enumerate() {
        let mut leave = [connect(id), disconnect(id)];
        leave.rotate_left(number % 2);
        assert_both_answered(match number {
            0 | 1 => polls.request(&json!(leave)),
            _ => {
                let mut socket = BayeuxWebSocket::connect(server.public);
                socket.send(&json!(leave));
                two_messages(&mut socket)
            }
        });
        server.await_removal(&session(id));
    }
}

#[test]
fn kicked_client_is_advised_not_to_reconnect() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    polls.send(&connect(&id));
    await_held(&server, &id);
    server.admin.kick(&session(&id));
    let answer = polls.response();
    assert_eq!(connect_reply(&answer)["advice"]["reconnect"], "none", "{answer:?}");
}

/// No request is waiting for an answer between connects, so the reply to the client's next message has the
/// reason, regardless of the kind of message.
#[test]
fn client_kicked_between_two_connects_is_advised_not_to_reconnect() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    server.admin.kick(&session(&id));
    for message in [subscribe(&id, "/x"), connect(&id), connect_now(&id)] {
        let reply = polls.reply(&message);
        assert_refused(&reply, "403");
        assert_eq!(reply["advice"]["reconnect"], "none", "{reply}");
    }
    let reply = BayeuxWebSocket::connect(server.public).reply(&connect(&id));
    assert_eq!(reply["advice"]["reconnect"], "none", "{reply}");
    // A guessed secret reveals nothing about the session.
    let (name, _) = id.split_once('.').expect("a client id has a secret");
    let reply = polls.reply(&connect(&format!("{name}.AAAAAAAAAAAAAAAAAAAAAA")));
    assert_refused(&reply, "402");
}

/// A held connect is answered with a pause, in a form that every client understands: after an HTTP error,
/// Faye would wait for 5 s.
#[test]
fn a_drain_answers_held_connects() {
    let mut server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    polls.send(&connect(&id));
    await_held(&server, &id);
    server.signal(Signal::TERM);
    let answer = polls.response();
    let reply = connect_reply(&answer);
    assert!(reply["advice"]["interval"].is_u64(), "{answer:?}");
    // CometD's client throws an exception on a `handshake` advice in a successful reply.
    if reply["successful"] == true {
        assert_ne!(reply["advice"]["reconnect"], "handshake", "{answer:?}");
    }
    server.await_exit(TIMEOUT);
}

/// The server sent no message to the client that left, so none is lost with its connect.
#[test]
fn abandoned_connect_loses_nothing() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    for number in 1..=20 {
        polls.send(&connect(&id));
        await_held(&server, &id);
        drop(polls);
        encke_tests::waiting::until("the server has noticed the end of the connection", || {
            server.admin.metrics().value(r#"encke_connections{transport="poll",dialect="bayeux"}"#) == 0.0
        });
        server.admin.publish("/news", number);
        polls = BayeuxPolling::connect(server.public);
        assert_eq!(events(&polls.request(&connect(&id))), [number]);
    }
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

/// Any message from the client counts as activity.
#[test]
fn session_between_connects_is_suspended_and_resumed() {
    let server = RunningServer::with(&["session.poll_gap=1s", "session.reconnect_window=60s"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    server.await_phase(&session(&id), "suspended");
    server.admin.publish("/news", 1);
    let answer = polls.request(&connect(&id));
    assert_eq!(events(&answer), [1]);
    assert_successful(connect_reply(&answer));
    assert_eq!(server.admin.phase(&session(&id)).as_deref(), Some("attached"));
}

/// Messages that the channel no longer has are reported with the next connect.
#[test]
fn gaps_are_reported_with_the_connect() {
    let server = RunningServer::with(&["channel.history_messages=4"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    for number in 1..=10 {
        server.admin.publish("/news", number);
    }
    let answer = polls.request(&connect(&id));
    assert_eq!(events(&answer), [7, 8, 9, 10]);
    let gaps = connect_reply(&answer)["ext"]["encke"]["gaps"].clone();
    assert_eq!(
        (&gaps[0]["channel"], &gaps[0]["from"], &gaps[0]["to"]),
        (&json!("/news"), &json!(1), &json!(6))
    );
    assert_eq!(gaps.as_array().map(Vec::len), Some(1), "{gaps}");
    polls.send(&connect(&id));
    await_held(&server, &id);
    server.admin.publish("/news", 11);
    let answer = polls.response();
    assert_eq!(events(&answer), [11]);
    assert_eq!(connect_reply(&answer)["ext"].get("encke"), None, "the gap is reported once");
}
