use std::collections::BTreeMap;
use std::time::Duration;

use encke_tests::bayeux::{self, BayeuxPolling, connect_now};
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::until;
use encke_tests::{Client, EventStream, Hello, PollClient, RunningServer, ServerOutput};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::restart::{RestartableServer, resume_session};

pub(crate) const JOIN_LEAVE_RULE: &str = "namespace=[{prefix='/room/', join_leave=true}]";

fn server(settings: &[&str]) -> RunningServer {
    RunningServer::with(&[&[JOIN_LEAVE_RULE], settings].concat())
}

/// Connects a client with a token for `user`.
#[track_caller]
fn client_of(server: &RunningServer, user: &str) -> Client {
    let claims = json!({"sub": user, "channels": {"*": ["subscribe", "publish", "presence"]}});
    Client::connect(server.public, &format!("token={}", sign(&claims, SECRET)))
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
    let server = server(&[&format!("auth.secret={SECRET}")]);
    let mut ann = client_of(&server, "ann");
    ann.subscribe("/room/x");
    // Ann receives her own join after the reply.
    let of = |client: &Client, user: &str| json!({"session": client.hello.session, "user": user});
    let ann_is = of(&ann, "ann");
    let message = ann.object();
    let text = format!(
        r#"{{"message":{{"channel":"/room/x","joined":{{"session":"{}","user":"ann"}},"offset":1,"seq":1}}}}"#,
        ann.hello.session
    );
    assert_eq!(message, serde_json::from_str::<Value>(&text).expect("JSON"));
    let mut bob = client_of(&server, "bob");
    let bob_is = of(&bob, "bob");
    bob.subscribe("/room/x");
    assert_eq!(
        [next_message(&mut ann), next_message(&mut bob)],
        [(); 2].map(|()| presence_message(2, "joined", &bob_is))
    );
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
    let mut late = client_of(&server, "carol");
    let reply = late.request(r#"{"id":1,"subscribe":{"channel":"/room/x","last":100}}"#);
    assert_eq!(reply["ok"]["offset"], 7);
    let read: Vec<_> = (1..=7).map(|_| next_message(&mut late)).collect();
    assert_eq!(read.iter().filter(|message| message["left"] == bob_is).count(), 3, "{read:?}");
    assert_eq!(read[0], presence_message(1, "joined", &ann_is));
    ann.send(r#"{"close":{}}"#);
    assert_eq!(ann.close_code(), Some(1000));
    assert_eq!(next_message(&mut late), presence_message(8, "joined", &of(&late, "carol")));
    assert_eq!(next_message(&mut late), presence_message(9, "left", &ann_is));
}

#[test]
fn suspended_session_does_not_leave() {
    let server = server(&[]);
    let mut stays = server.client();
    stays.subscribe("/room/x");
    let stays_is = anonymous(&stays.hello);
    assert_eq!(next_message(&mut stays), presence_message(1, "joined", &stays_is));
    let mut goes = server.client();
    goes.subscribe("/room/x");
    let hello = goes.drop_connection();
    assert_eq!(next_message(&mut stays), presence_message(2, "joined", &anonymous(&hello)));
    server.await_phase(&hello.session, "suspended");
    let goes = Client::connect(server.public, &format!("resume={}&seq=0", hello.resume));
    assert!(goes.hello.recovered);
    assert_no_message(&mut stays);
    drop(goes);
    server.await_phase(&hello.session, "suspended");
    assert_no_message(&mut stays);
}

#[test]
fn expired_session_leaves() {
    let server = server(&["session.reconnect_window=300ms"]);
    let mut stays = server.client();
    stays.subscribe("/room/x");
    next_message(&mut stays);
    let mut goes = server.client();
    goes.subscribe("/room/x");
    let hello = goes.drop_connection();
    assert_eq!(next_message(&mut stays), presence_message(2, "joined", &anonymous(&hello)));
    assert_eq!(next_message(&mut stays), presence_message(3, "left", &anonymous(&hello)));
    // The leave is published when the session ends; the session is removed a moment later.
    server.await_removal(&hello.session);
}

#[test]
fn token_that_allows_less_causes_a_leave() {
    let server = server(&[&format!("auth.secret={SECRET}")]);
    let mut stays = client_of(&server, "ann");
    stays.subscribe("/room/x");
    // Wait for the join: it is published after the reply, so another client that subscribes in between would
    // receive it, too.
    next_message(&mut stays);
    let mut goes = client_of(&server, "bob");
    goes.subscribe("/room/x");
    let bob_is = json!({"session": goes.hello.session, "user": "bob"});
    assert_eq!(next_message(&mut goes), presence_message(2, "joined", &bob_is));
    let less = sign(&json!({"sub": "bob", "channels": {"else": ["subscribe"]}}), SECRET);
    goes.send(&json!({"id": 2, "refresh": {"token": less}}).to_string());
    assert_eq!(next_message(&mut stays), presence_message(2, "joined", &bob_is));
    assert_eq!(next_message(&mut stays), presence_message(3, "left", &bob_is));
    // A token that names a channel in `join` subscribes its session, which is a join.
    let joins = json!({"sub": "carol", "channels": {"*": ["subscribe"]}, "join": ["/room/x"]});
    let carol = Client::connect(server.public, &format!("token={}", sign(&joins, SECRET)));
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
    let polled = requests.get(&format!("resume={}&seq=0", hello.resume)).json();
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

#[test]
fn joins_and_leaves_arrive_on_a_bayeux_socket() {
    let server = server(&[]);
    let mut subscriber = server.client();
    subscriber.subscribe("/room/x");
    next_message(&mut subscriber);
    let mut socket = bayeux::BayeuxWebSocket::connect(server.public);
    let client_id = socket.handshake();
    let socket_is = json!({"session": bayeux::session(&client_id)});
    let mut events = socket.request(&bayeux::subscribe(&client_id, "/room/x"));
    bayeux::assert_successful(events.last().expect("a reply"));
    // The server sends no messages before the first connect.
    socket.send(&connect_now(&client_id));
    let event =
        |what: &str, of: &Value| json!({"channel": "/room/x", "data": {}, "ext": {"encke": {what: of}}});
    while !events.contains(&event("joined", &socket_is)) {
        events.extend(socket.messages());
    }
    assert_eq!(next_message(&mut subscriber), presence_message(2, "joined", &socket_is));
    let hello = subscriber.hello.clone();
    subscriber.send(r#"{"close":{}}"#);
    while !events.contains(&event("left", &anonymous(&hello))) {
        events.extend(socket.messages());
    }
    bayeux::assert_successful(socket.request(&bayeux::disconnect(&client_id)).last().expect("a reply"));
    until("the session of the socket has left, too", || {
        let history = server.admin.get("/api/channels/%2Froom%2Fx/history?since=3").json();
        history["messages"][0]["left"] == socket_is
    });
}

/// `joined` and `left` are fields next to `data`, which clients cannot set.
#[test]
fn clients_cannot_forge_joins_and_leaves() {
    let rules = "namespace=[{prefix='/room/', join_leave=true, publish=false, at_ms=true}, {prefix='/open/', join_leave=true}]";
    let server = RunningServer::with(&[rules]);
    let mut client = server.client();
    let reply = client.request(r#"{"id":1,"publish":{"channel":"/room/x","data":1}}"#);
    assert_eq!(reply["error"]["code"], "forbidden");
    client.subscribe("/room/x");
    let message = next_message(&mut client);
    assert!(message["at_ms"].is_u64() && message["joined"] == anonymous(&client.hello), "{message}");
    client.subscribe("/open/x");
    next_message(&mut client);
    let forged = json!({"joined": {"session": "s_1"}, "left": {"session": "s_1"}});
    let publish =
        json!({"id": 2, "publish": {"channel": "/open/x", "data": forged, "joined": {"session": "s_2"}}});
    assert_eq!(client.request(&publish.to_string())["error"]["code"], "malformed");
    client.send(&json!({"publish": {"channel": "/open/x", "data": forged}}).to_string());
    assert_eq!(next_message(&mut client), json!({"channel": "/open/x", "offset": 2, "data": forged}));
    let mut polls = BayeuxPolling::connect(server.public);
    let publisher_id = polls.handshake();
    let ext = json!({"encke": {"joined": {"session": "s_3"}}});
    let forged_over_bayeux = bayeux::with_field(bayeux::publish(&publisher_id, "/open/x", 7), "ext", ext);
    bayeux::assert_successful(&polls.reply(&forged_over_bayeux));
    assert_eq!(next_message(&mut client), json!({"channel": "/open/x", "offset": 3, "data": 7}));
    let mut history = server.admin.get("/api/channels/%2Fopen%2Fx/history").json();
    let messages = history["messages"].as_array_mut().expect("a list");
    messages.iter_mut().for_each(|message| _ = message.as_object_mut().and_then(|it| it.remove("age_ms")));
    assert_eq!(
        history["messages"],
        json!([
            {"offset": 1, "joined": anonymous(&client.hello)},
            {"offset": 2, "data": forged},
            {"offset": 3, "data": 7},
        ])
    );
}

/// A client's list of the sessions in a channel. The client subscribes, then requests the presence, and
/// applies all joins and leaves received since the request to the reply.
struct Observer {
    client: Client,
    present_sessions: BTreeMap<String, Value>,
}

impl Observer {
    #[track_caller]
    fn begin(mut client: Client) -> Self {
        client.subscribe("/room/x");
        client.send(r#"{"id":9,"presence":{"channel":"/room/x"}}"#);
        let (mut since, mut present_sessions) = (Vec::new(), BTreeMap::new());
        loop {
            let object = client.object();
            if object["message"].is_object() {
                since.push(object);
                continue;
            }
            for present in object["reply"]["ok"]["present"].as_array().unwrap_or_else(|| panic!("{object}")) {
                present_sessions.insert(session_of(present), present["user"].clone());
            }
            break;
        }
        let mut observer = Self { client, present_sessions };
        since.iter().for_each(|object| observer.apply(object));
        observer
    }

    #[track_caller]
    fn apply(&mut self, object: &Value) {
        let message = &object["message"];
        if message["joined"].is_object() {
            self.present_sessions.insert(session_of(&message["joined"]), message["joined"]["user"].clone());
        } else {
            self.present_sessions.remove(&session_of(&message["left"]));
        }
    }
}

#[track_caller]
fn session_of(subscriber: &Value) -> String {
    subscriber["session"].as_str().unwrap_or_else(|| panic!("{subscriber}")).to_owned()
}

/// A client that follows the README's procedure has an exact list, no matter when it starts.
#[test]
fn list_of_present_sessions_is_exact() {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let server = server(&["limits.commands_per_second=0"]);
    let mut crowd: Vec<Client> = (0..6).map(|_| server.client()).collect();
    let mut observers = Vec::new();
    for round in 0..200 {
        if round % 40 == 20 {
            observers.push(Observer::begin(server.client()));
        }
        let at = rng.random_range(0..crowd.len());
        match rng.random_range(0..8) {
            0..=3 => crowd[at].send(r#"{"subscribe":{"channel":"/room/x"}}"#),
            4..=5 => crowd[at].send(r#"{"unsubscribe":{"channel":"/room/x"}}"#),
            6 => {
                crowd[at].send(r#"{"close":{}}"#);
                crowd[at] = server.client();
            }
            _ => {
                server.admin.kick(&crowd[at].hello.session);
                crowd[at] = server.client();
            }
        }
    }
    for mut observer in observers {
        let present = || {
            let shown = server.admin.get("/api/channels/%2Froom%2Fx/presence").json();
            let present = shown["present"].as_array().expect("a list").clone();
            present.iter().map(|it| (session_of(it), it["user"].clone())).collect::<BTreeMap<_, _>>()
        };
        until("the list is right", || {
            while let Some(ServerOutput::Object(object)) =
                observer.client.next_within(Duration::from_millis(50))
            {
                observer.apply(&object);
            }
            observer.present_sessions == present()
        });
    }
}

#[test]
fn presence_names_sessions_only_with_join_leave() {
    let server = server(&[]);
    let mut client = server.client();
    client.subscribe("news");
    let reply = client.request(r#"{"id":2,"presence":{"channel":"news"}}"#);
    assert_eq!(reply["ok"]["present"], json!([{"user": null, "phase": "attached"}]));
    let mut client = server.client();
    client.subscribe("/room/x");
    next_message(&mut client);
    let reply = client.request(r#"{"id":2,"presence":{"channel":"/room/x"}}"#);
    let present = json!([{"session": client.hello.session, "user": null, "phase": "attached"}]);
    assert_eq!(reply["ok"]["present"], present);
}

#[test]
fn restart_causes_neither_joins_nor_leaves() {
    let mut restarts = RestartableServer::with(&[JOIN_LEAVE_RULE]);
    let mut stays = restarts.server.client();
    stays.subscribe("/room/x");
    let mut goes = restarts.server.client();
    goes.subscribe("/room/x");
    let (stays_hello, goes_hello) = (stays.hello.clone(), goes.hello.clone());
    for hello in [&stays_hello, &goes_hello] {
        assert_eq!(next_message(&mut stays)["joined"], anonymous(hello));
    }
    restarts.restart();
    let mut stays = resume_session(&restarts, &stays_hello, 2);
    assert_no_message(&mut stays);
    // The other client does not reconnect.
    restarts.server.admin.kick(&goes_hello.session);
    assert_eq!(next_message(&mut stays), presence_message(3, "left", &anonymous(&goes_hello)));
    restarts.restart();
    let mut stays = resume_session(&restarts, &stays_hello, 2);
    assert_eq!(
        next_message(&mut stays),
        presence_message(3, "left", &anonymous(&goes_hello)),
        "the leave may be sent again"
    );
    let mut new = restarts.server.client();
    new.subscribe("/room/x");
    assert_eq!(next_message(&mut stays), presence_message(4, "joined", &anonymous(&new.hello)));
}
