use std::time::{Duration, Instant, SystemTime};

use encke_tests::RunningServer;
use encke_tests::bayeux::{
    BayeuxPolling, BayeuxWebSocket, assert_refused, assert_successful, client_id, connect, connect_now, disconnect, events,
    handshake, publish, session, subscribe, with_field,
};
use encke_tests::process::Signal;
use encke_tests::server::IN_MEMORY;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::TIMEOUT;
use serde_json::{Value, json};

use super::{assert_refused_somehow, await_held, connect_reply, timing};

/// aiocometd would wait for ever. The timeouts are told once more.
#[test]
fn the_first_connect_is_answered_at_once() {
    // Longer than a test waits.
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
fn others_are_held_until_there_is_something() {
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

/// For as long as the server says, or as the client asks for, whichever is shorter.
#[test]
fn without_anything_a_connect_is_answered_after_its_hold() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    for (asked, held) in
        [(json!({}), 1_000), (json!({"timeout": 400}), 400), (json!({"timeout": 600_000}), 1_000)]
    {
        let from = Instant::now();
        let reply = polls.reply(&with_field(connect(&id), "advice", asked.clone()));
        assert_successful(&reply);
        assert!(from.elapsed() >= Duration::from_millis(held), "{asked}: {:?}", from.elapsed());
    }
}

#[test]
fn a_connect_that_wants_no_hold_or_shares_its_request_is_answered_at_once() {
    let server = RunningServer::with(&[IN_MEMORY, "session.poll_hold=50s"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    assert_successful(&polls.reply(&connect_now(&id)));
    let answer = polls.request(&json!([connect(&id), subscribe(&id, "/news")]));
    assert_eq!(answer.len(), 2, "{answer:?}");
    assert_eq!(answer[0]["channel"], "/meta/subscribe");
    assert_successful(&answer[0]);
    assert_successful(connect_reply(&answer));
    // Events, replies, and the connect's last.
    let answer = polls.request(&json!([connect(&id), publish(&id, "/news", 1), publish(&id, "/news", 2)]));
    assert_eq!(events(&answer), [1, 2]);
    assert_successful(connect_reply(&answer));
    assert_eq!(answer.len(), 5, "{answer:?}");
}

#[test]
fn a_client_that_nobody_knows_is_told_to_handshake() {
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
    assert_refused_somehow(&polls.reply(&nameless));
}

/// Two holders of one id do not spin: the first is asked for a pause, and the next answer after it takes that back.
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

/// The administrator drops its connection; the client comes back, and is no slower from then on.
#[test]
fn a_client_that_is_dropped_comes_back_after_a_pause_and_hears_its_end() {
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

/// At once, also when it shares its request with others.
#[test]
fn what_shares_a_request_with_a_disconnect_is_done_before() {
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

/// A client that leaves may have its connect in the same request. That is answered as one that was held: the end is what it has asked for.
#[test]
fn a_connect_that_comes_with_the_end_of_its_session_is_answered() {
    let server = RunningServer::with(&[]);
    let orders: [fn(&str) -> Value; 2] =
        [|id| json!([connect(id), disconnect(id)]), |id| json!([disconnect(id), connect(id)])];
    for leave in orders {
        let mut polls = BayeuxPolling::connect(server.public);
        let id = polls.open(&[]);
        assert_both_answered(polls.request(&leave(&id)));
        server.await_removal(&session(&id));
        // Over a WebSocket that has the session, and over one that has none yet.
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

/// Its token has expired, but it has the secret.
#[test]
fn a_client_without_a_valid_token_may_end_its_session() {
    let server = RunningServer::with(&[&format!("auth.secret={SECRET}")]);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
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
    // Nor does a connect beside it tell the client to come back.
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
fn a_client_that_is_kicked_is_told_to_stay_away() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&[]);
    polls.send(&connect(&id));
    await_held(&server, &id);
    server.admin.kick(&session(&id));
    let answer = polls.response();
    assert_eq!(connect_reply(&answer)["advice"]["reconnect"], "none", "{answer:?}");
}

/// Between two connects there is nobody to tell. The next hears of it, whatever it asks for.
#[test]
fn a_client_that_is_kicked_between_two_connects_is_told_to_stay_away() {
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
    // A secret that was guessed is told nothing.
    let (name, _) = id.split_once('.').expect("a client id has a secret");
    let reply = polls.reply(&connect(&format!("{name}.AAAAAAAAAAAAAAAAAAAAAA")));
    assert_refused(&reply, "402");
}

/// An answer that every client reads, with a pause: Faye would stay away for 5 s after an error of HTTP.
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
    // CometD's client throws on it.
    if reply["successful"] == true {
        assert_ne!(reply["advice"]["reconnect"], "handshake", "{answer:?}");
    }
    server.await_exit(TIMEOUT);
}

/// Nothing was sent to a client that left, so nothing is lost with it.
#[test]
fn nothing_is_lost_with_a_connect_that_is_given_up() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    for number in 1..=20 {
        polls.send(&connect(&id));
        await_held(&server, &id);
        drop(polls);
        encke_tests::waiting::until("the server has seen its end", || {
            server.admin.metrics().value(r#"encke_connections{transport="poll",dialect="bayeux"}"#) == 0.0
        });
        server.admin.publish("/news", number);
        polls = BayeuxPolling::connect(server.public);
        assert_eq!(events(&polls.request(&connect(&id))), [number]);
    }
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

/// What its client has sent counts as heard, whatever it is.
#[test]
fn a_session_between_connects_is_suspended_and_comes_back() {
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

/// What the channel no longer has is told with the next connect.
#[test]
fn gaps_ride_on_the_connect() {
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
    assert_eq!(connect_reply(&answer)["ext"].get("encke"), None, "it is told once");
}
