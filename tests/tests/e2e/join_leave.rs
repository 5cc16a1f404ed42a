use std::time::Duration;

use encke_tests::bayeux::{self, BayeuxPolling, connect_now};
use encke_tests::tokens::token;
use encke_tests::waiting::until;
use encke_tests::{Client, EventStream, Hello, PollClient, RunningServer, ServerOutput};
use serde_json::{Value, json};

use crate::poll::poll_query;
use crate::restart::RestartableServer;

pub(crate) const JOIN_LEAVE_RULE: &str = "namespace=[{prefix='/room/', join_leave=true}]";

fn server(settings: &[&str]) -> RunningServer {
    RunningServer::with(&[&[JOIN_LEAVE_RULE], settings].concat())
}

/// Returns the description of an anonymous client's session in a join or leave.
pub(crate) fn anonymous(hello: &Hello) -> Value {
    json!({"session": hello.session})
}

/// Returns the message without its seq.
#[track_caller]
fn body(mut object: Value) -> Value {
    let mut message = object["message"].take();
    let seq = message.as_object_mut().and_then(|fields| fields.remove("seq"));
    assert!(seq.is_some(), "no message: {object} {message}");
    message
}

#[track_caller]
pub(crate) fn next_message(client: &mut Client) -> Value {
    body(client.object())
}

#[track_caller]
fn assert_no_message(client: &mut Client) {
    let output = client.next_within(Duration::from_millis(100));
    assert!(matches!(output, None | Some(ServerOutput::Ping(_))), "{output:?}");
}

pub(crate) fn presence_message(offset: u64, kind: &str, of: &Value) -> Value {
    json!({"channel": "/room/x", "offset": offset, kind: of})
}

#[test]
fn subscribers_receive_joins_and_leaves() {
    let server = RunningServer::with_tokens(&[JOIN_LEAVE_RULE]);
    let mut ann = server.client_of("ann");
    ann.subscribe("/room/x");
    // Ann receives her own join after the reply.
    let of = |client: &Client, user: &str| json!({"session": client.hello.session, "user": user});
    let ann_is = of(&ann, "ann");
    assert_eq!(next_message(&mut ann), presence_message(1, "joined", &ann_is));
    let mut bob = server.client_of("bob");
    let bob_is = of(&bob, "bob");
    bob.subscribe("/room/x");
    for client in [&mut ann, &mut bob] {
        assert_eq!(next_message(client), presence_message(2, "joined", &bob_is));
    }
    // Subscribing again is not a join, and neither is subscribing to a pattern. However, a subscriber of the
    // pattern receives joins and leaves.
    bob.subscribe("/room/x");
    bob.subscribe("/room/*");
    bob.subscribe("elsewhere");
    let reply = bob.request(r#"{"id":3,"unsubscribe":{"channel":"/room/x"}}"#);
    assert_eq!(reply["ok"], json!({}));
    assert_eq!(next_message(&mut ann), presence_message(3, "left", &bob_is));
    let by_pattern = next_message(&mut bob);
    assert_eq!((&by_pattern["left"], &by_pattern["pattern"]["name"]), (&bob_is, &json!("/room/*")));
    // Subscriptions that the backend creates and removes are joins and leaves, too.
    let path = |what: &str| format!("/api/sessions/{}/{what}", bob.hello.session);
    let (subscribe, unsubscribe) = (path("subscribe"), path("unsubscribe"));
    assert_eq!(server.admin.post(&subscribe, r#"{"channel":"/room/x"}"#).status, 200);
    assert_eq!(next_message(&mut ann), presence_message(4, "joined", &bob_is));
    assert_eq!(server.admin.post(&unsubscribe, r#"{"channel":"/room/x"}"#).status, 204);
    assert_eq!(next_message(&mut ann), presence_message(5, "left", &bob_is));
    bob.send(r#"{"subscribe":{"channel":"/room/x"}}"#);
    assert_eq!(next_message(&mut ann), presence_message(6, "joined", &bob_is));
    server.admin.kick(&bob.hello.session);
    assert_eq!(next_message(&mut ann), presence_message(7, "left", &bob_is));
    // Any subscriber can read joins and leaves in the history.
    let mut late = server.client_of("carol");
    let reply = late.request(r#"{"id":1,"subscribe":{"channel":"/room/x","last":100}}"#);
    assert_eq!(reply["ok"]["offset"], 7);
    let read: Vec<_> = (1..=7).map(|_| next_message(&mut late)).collect();
    assert_eq!(read.iter().filter(|message| message["left"] == bob_is).count(), 3, "{read:?}");
    assert_eq!(read[0], presence_message(1, "joined", &ann_is));
    ann.close();
    assert_eq!(next_message(&mut late), presence_message(8, "joined", &of(&late, "carol")));
    assert_eq!(next_message(&mut late), presence_message(9, "left", &ann_is));
}

/// The presence of a channel with `join_leave` names the sessions.
#[test]
fn session_leaves_when_it_expires_and_not_when_it_is_suspended() {
    let server = server(&["session.reconnect_window=2s"]);
    let mut stays = server.client();
    stays.subscribe("/room/x");
    let stays_is = anonymous(&stays.hello);
    assert_eq!(next_message(&mut stays), presence_message(1, "joined", &stays_is));
    stays.subscribe("news");
    for (channel, session) in [("news", None), ("/room/x", Some(stays.hello.session.clone()))] {
        let mut present = json!({"user": null, "phase": "attached"});
        session.into_iter().for_each(|session| present["session"] = json!(session));
        let reply = stays.request(json!({"id": 2, "presence": {"channel": channel}}));
        assert_eq!(reply["ok"]["present"], json!([present]), "{channel}");
    }
    let mut goes = server.client();
    goes.subscribe("/room/x");
    let hello = goes.drop_connection();
    assert_eq!(next_message(&mut stays), presence_message(2, "joined", &anonymous(&hello)));
    server.await_phase(&hello.session, "suspended");
    let goes = Client::connect(server.public, &format!("resume={}&seq=0", hello.resume));
    if goes.hello.recovered {
        assert_no_message(&mut stays);
    }
    drop(goes);
    assert_eq!(next_message(&mut stays), presence_message(3, "left", &anonymous(&hello)));
    // The leave is published when the session ends; the session is removed a moment later.
    server.await_removal(&hello.session);
}

#[test]
fn token_that_allows_less_causes_a_leave() {
    let server = RunningServer::with_tokens(&[JOIN_LEAVE_RULE]);
    let mut stays = server.client_of("ann");
    stays.subscribe("/room/x");
    // Wait for the join: it is published after the reply, so another client that subscribes in between would
    // receive it, too.
    next_message(&mut stays);
    let mut goes = server.client_of("bob");
    goes.subscribe("/room/x");
    let bob_is = json!({"session": goes.hello.session, "user": "bob"});
    assert_eq!(next_message(&mut goes), presence_message(2, "joined", &bob_is));
    let less = token("bob", json!({"channels": {"else": ["subscribe"]}}));
    goes.send(json!({"id": 2, "refresh": {"token": less}}));
    assert_eq!(next_message(&mut stays), presence_message(2, "joined", &bob_is));
    assert_eq!(next_message(&mut stays), presence_message(3, "left", &bob_is));
    // A token that names a channel in `join` subscribes its session, which is a join.
    let carol = server.client_with(&token("carol", json!({"join": ["/room/x"]})));
    assert_eq!(next_message(&mut stays)["joined"], json!({"session": carol.hello.session, "user": "carol"}));
}

/// Tests server-sent events, long-polling and Bayeux.
#[test]
fn joins_and_leaves_arrive_on_each_transport() {
    let server = server(&[]);
    let mut stream = EventStream::open(server.public, "channels=/room/x");
    let first = anonymous(&stream.hello());
    assert_eq!(body(stream.object().1), presence_message(1, "joined", &first));
    let mut requests = PollClient::connect(server.public);
    let hello = Hello::parse(requests.get("channels=/room/x").json()[0].take());
    let polled = requests.get(&poll_query(&hello, 0)).json();
    assert_eq!(body(polled[0].clone()), presence_message(2, "joined", &anonymous(&hello)));
    let mut polls = BayeuxPolling::connect(server.public);
    let reading = polls.handshake();
    let bayeux_is = json!({"session": bayeux::session(&reading)});
    let mut events = polls.request(&bayeux::subscribe(&reading, "/room/x"));
    bayeux::assert_successful(&events[0]);
    let mut await_event = |what: &str, of: &Value| {
        let event = json!({"channel": "/room/x", "data": {}, "ext": {"encke": {what: of}}});
        until("the event is published", || {
            events.extend(polls.request(&connect_now(&reading)));
            events.contains(&event)
        });
    };
    await_event("joined", &bayeux_is);
    assert_eq!(requests.post(&format!("resume={}", hello.resume), r#"{"close":{}}"#).status, 200);
    await_event("left", &anonymous(&hello));
    polls.request(&bayeux::disconnect(&reading));
    for expected in [
        presence_message(2, "joined", &anonymous(&hello)),
        presence_message(3, "joined", &bayeux_is),
        presence_message(4, "left", &anonymous(&hello)),
        presence_message(5, "left", &bayeux_is),
    ] {
        assert_eq!(body(stream.object().1), expected);
    }
}

/// A session without a connection has no address of its own, but its requests have one.
#[test]
fn joins_by_requests_of_suspended_sessions_are_limited() {
    let server = server(&["limits.joins_per_minute=1"]);
    let mut stays = server.client();
    stays.subscribe("/room/x");
    assert_eq!(next_message(&mut stays), presence_message(1, "joined", &anonymous(&stays.hello)));
    let hello = server.suspended_session();
    let mut requests = PollClient::connect(server.public);
    let subscribe = r#"{"id":1,"subscribe":{"channel":"/room/x"}}"#;
    assert_eq!(requests.post(&format!("resume={}", hello.resume), subscribe).status, 200);
    let reply = stays.request(r#"{"id":2,"presence":{"channel":"/room/x"}}"#);
    assert_eq!(reply["ok"]["total"], 1, "{reply}");
}

/// A restart does not announce the joins that were held back all at once.
#[test]
fn joins_stay_held_back_after_a_restart() {
    let limit = "limits.joins_per_minute=1";
    let mut restarts = RestartableServer::with(&[JOIN_LEAVE_RULE, limit]);
    let sessions: Vec<_> = (0..5)
        .map(|_| {
            let mut client = restarts.server.client();
            client.subscribe("/room/x");
            client.drop_connection()
        })
        .collect();
    let listed = |server: &RunningServer| {
        let presence = server.admin.get("/api/channels/%2Froom%2Fx/presence").json();
        (presence["total"].clone(), presence["present"].clone())
    };
    let is_suspended = |server: &RunningServer| server.admin.metrics().sessions("suspended") == 5.0;
    until("all are suspended", || is_suspended(&restarts.server));
    let expected = json!([{"session": sessions[0].session, "user": null, "phase": "suspended"}]);
    assert_eq!(listed(&restarts.server), (json!(1), expected.clone()));
    restarts.restart();
    // The limit begins again.
    let (total, present) = listed(&restarts.server);
    assert_eq!((total, present[0].clone()), (json!(2), expected[0].clone()));
    let history = restarts.server.admin.get("/api/channels/%2Froom%2Fx/history").json();
    assert_eq!(history["messages"].as_array().expect("messages").len(), 2, "{history}");
}

/// `joined` and `left` are fields next to `data`, which clients cannot set.
#[test]
fn clients_cannot_forge_joins_and_leaves() {
    let server = server(&[]);
    let mut client = server.client();
    client.subscribe("/room/x");
    assert_eq!(next_message(&mut client), presence_message(1, "joined", &anonymous(&client.hello)));
    let forged = json!({"joined": {"session": "s_1"}, "left": {"session": "s_1"}});
    let publish =
        json!({"id": 2, "publish": {"channel": "/room/x", "data": forged, "joined": {"session": "s_2"}}});
    client.assert_refused(&publish, "malformed");
    client.send(json!({"publish": {"channel": "/room/x", "data": forged}}));
    assert_eq!(next_message(&mut client), json!({"channel": "/room/x", "offset": 2, "data": forged}));
    let mut polls = BayeuxPolling::connect(server.public);
    let publisher_id = polls.handshake();
    let ext = json!({"encke": {"joined": {"session": "s_3"}}});
    let forged_over_bayeux = bayeux::with_field(bayeux::publish(&publisher_id, "/room/x", 7), "ext", ext);
    bayeux::assert_successful(&polls.reply(&forged_over_bayeux));
    assert_eq!(next_message(&mut client), json!({"channel": "/room/x", "offset": 3, "data": 7}));
}
