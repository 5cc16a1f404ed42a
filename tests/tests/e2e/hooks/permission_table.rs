//! The table of permissions in the documents: for each action, what is checked, in which order, and the error, on each
//! transport.

use encke_tests::bayeux::{self, BayeuxPolling, assert_refused, with_token};
use encke_tests::events::request_events;
use encke_tests::tokens::token;
use encke_tests::waiting::{eventually, until};
use encke_tests::{Backend, BackendReply, Client, EventStream, Hello, PollClient, RunningServer};
use serde_json::{Value, json};

use super::{error, launch_with_hooks};

/// Action of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Subscribe,
    SubscribeLast,
    SubscribeSince,
    Publish,
    Presence,
    History,
    /// The token names the channel in `join`.
    Join,
    /// The URL of an event stream or a poll names the channel.
    Url,
}

/// Code and message of an error. The message is empty if the client does not receive any.
type Refusal = (&'static str, &'static str);

/// Row of the table. `None`: this check does not refuse.
struct Row {
    action: Action,
    /// Refusal if the token's claims do not allow the channel.
    claims: Refusal,
    /// Refusal if the rules of the channel's namespace forbid the action.
    namespace: Option<Refusal>,
    /// Refusal if the backend denies the request.
    backend: Refusal,
    /// Refusal if the token's claims do not allow the channel that the backend names instead.
    claims_of_replaced: Refusal,
}

const NO_SUBSCRIBE: Refusal = (
    "forbidden",
    "no permission to subscribe to this channel (`channels` of the token, or of the backend's response to `connect`)",
);
const NO_PUBLISH: Refusal = (
    "forbidden",
    "no permission to publish to this channel (`channels` of the token, or of the backend's response to `connect`)",
);
const NO_PRESENCE: Refusal = (
    "forbidden",
    "no permission to list the subscribers of this channel (`channels` of the token, or of the backend's response to `connect`)",
);
const NO_HISTORY: Refusal = (
    "forbidden",
    "no permission to read the history of this channel (`channels` of the token, or of the backend's response to `connect`)",
);
const DENIED: Refusal = ("moderated", "not here");
/// Logged only.
const NOT_JOINED: Refusal = ("not joined", "not here");
const UNSUBSCRIBED: Refusal = ("unsubscribed", "forbidden");
/// Bayeux replies cannot name another channel.
const REPLACED: Refusal = ("forbidden", "the backend has replaced a channel");

/// Channel in the URLs of event streams, which need one.
const STREAM: &str = "/stream";

const fn subscribe_row(action: Action) -> Row {
    Row { action, claims: NO_SUBSCRIBE, namespace: None, backend: DENIED, claims_of_replaced: NO_SUBSCRIBE }
}

const ROWS: [Row; 8] = [
    subscribe_row(Action::Subscribe),
    subscribe_row(Action::SubscribeLast),
    subscribe_row(Action::SubscribeSince),
    Row {
        action: Action::Publish,
        claims: NO_PUBLISH,
        namespace: Some(("forbidden", "clients may not publish to this channel")),
        backend: DENIED,
        claims_of_replaced: NO_PUBLISH,
    },
    Row {
        action: Action::Presence,
        claims: NO_PRESENCE,
        namespace: Some(("forbidden", "clients may not list the subscribers of this channel")),
        backend: DENIED,
        claims_of_replaced: NO_PRESENCE,
    },
    Row {
        action: Action::History,
        claims: NO_HISTORY,
        namespace: None,
        backend: DENIED,
        claims_of_replaced: NO_HISTORY,
    },
    Row {
        action: Action::Join,
        claims: ("unauthorized", ""),
        namespace: None,
        backend: NOT_JOINED,
        claims_of_replaced: ("not joined", NO_SUBSCRIBE.1),
    },
    Row {
        action: Action::Url,
        claims: (
            "forbidden",
            "no permission to subscribe to `/other` (`channels` of the token, or of the backend's response to `connect`)",
        ),
        namespace: None,
        backend: UNSUBSCRIBED,
        claims_of_replaced: UNSUBSCRIBED,
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    WebSocket,
    Events,
    Poll,
    Bayeux,
}

/// A client's session. `query` is that of a POST with commands.
enum ClientConnection {
    WebSocket(Box<Client>),
    Events {
        stream: EventStream,
        requests: PollClient,
        query: String,
        hello: Hello,
    },
    /// `received` is what the first poll received after the hello.
    Poll {
        requests: PollClient,
        query: String,
        hello: Hello,
        received: Vec<Value>,
    },
    /// Connection, and the id of the Bayeux client.
    Bayeux(BayeuxPolling, String),
}

/// Channels to which the session is subscribed afterwards, or the error.
type Outcome = Result<Vec<String>, (String, String)>;

/// Every cell of the table, on every transport. The backend is called only if the server's own checks have passed.
#[test]
fn permissions_are_checked_in_the_order_of_the_table() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["channel"].as_str() {
        Some("/private") => BackendReply::json(error(DENIED.0, DENIED.1)),
        Some(channel) if channel.starts_with("/to/") => {
            BackendReply::json(json!({"allow": true, "channel": &channel["/to".len()..]}))
        }
        _ => BackendReply::approval_of(request),
    });
    let server = launch_with_hooks(&backend, &["subscribe", "publish"])
        .set("namespace=[{prefix='/quiet/', publish=false, presence=false}]")
        .start();
    for row in &ROWS {
        // Channel that is requested, channel that is used, expected refusal, and number of calls of the backend.
        let cells = [
            ("/other", "/other", Some(row.claims), 0),
            ("/quiet/a", "/quiet/a", row.namespace, usize::from(row.namespace.is_none())),
            ("/private", "/private", Some(row.backend), 1),
            ("/open", "/open", None, 1),
            ("/to/other", "/other", Some(row.claims_of_replaced), 1),
            ("/to/quiet/a", "/quiet/a", row.namespace, 1),
            ("/to/open", "/open", None, 1),
        ];
        for transport in [Transport::WebSocket, Transport::Events, Transport::Poll, Transport::Bayeux] {
            for (requested, actual, refusal, calls) in cells {
                let is_replaced_on_bayeux =
                    transport == Transport::Bayeux && row.action == Action::Subscribe && requested != actual;
                let refusal = match refusal {
                    None if is_replaced_on_bayeux => Some(REPLACED),
                    refusal => refusal,
                };
                let calls_so_far = || {
                    let requests = backend.requests();
                    requests.iter().filter(|request| request.json()["channel"] != STREAM).count()
                };
                let before = calls_so_far();
                let Some(outcome) = attempt(&server, (transport, row.action), requested, refusal.is_none())
                else {
                    continue;
                };
                let context = format!("{transport:?}: {:?} {requested}", row.action);
                assert_eq!(outcome, expected(row.action, actual, refusal), "{context}");
                assert_eq!(calls_so_far() - before, calls, "{context}");
            }
        }
    }
}

fn expected(action: Action, actual: &str, refusal: Option<Refusal>) -> Outcome {
    match (refusal, action) {
        (Some((code, message)), _) => Err((code.to_owned(), message.to_owned())),
        (None, Action::Publish | Action::Presence | Action::History) => Ok(Vec::new()),
        (None, _) => Ok(vec![actual.to_owned()]),
    }
}

/// Performs the action as a new client. `None` if the transport has no such command.
fn attempt(
    server: &RunningServer,
    (transport, action): (Transport, Action),
    channel: &str,
    is_allowed: bool,
) -> Option<Outcome> {
    let allowed =
        |channel: &str| (channel.to_owned(), json!(["subscribe", "publish", "presence", "history"]));
    let channels = ["/open", "/private", "/quiet/*", "/to/*", STREAM].map(allowed);
    let mut claims = json!({"channels": serde_json::Map::from_iter(channels)});
    if action == Action::Join {
        claims["join"] = json!([channel]);
    }
    let token = token("alice", claims);
    if action == Action::Url && !matches!(transport, Transport::Events | Transport::Poll) {
        return None;
    }
    let url = match (action, transport) {
        (Action::Url, _) => format!("channels={channel}&token={token}"),
        (_, Transport::Events) => format!("channels={STREAM}&token={token}"),
        _ => format!("token={token}"),
    };
    if matches!(action, Action::Join | Action::Url) && channel == "/other" {
        return Some(Err(refused_connection(server, transport, &url, &token)));
    }
    let mut link = ClientConnection::open(server, transport, &url, &token);
    let session = link.session();
    let outcome = match action {
        Action::Join | Action::Url if is_allowed => Ok(()),
        Action::Join => Err(failed_join(server, &session)),
        Action::Url => Err(link.unsubscribed()),
        _ => link.command(action, channel)?,
    };
    let is_subscribing = !matches!(action, Action::Publish | Action::Presence | Action::History);
    Some(outcome.map(|()| {
        if is_subscribing {
            until("the session is subscribed", || !subscriptions(server, &session).is_empty());
        }
        subscriptions(server, &session)
    }))
}

fn refusal(code: &str, message: &str) -> (String, String) {
    (code.to_owned(), message.to_owned())
}

/// Returns the error object's code and message.
fn refusal_of(error: &Value) -> (String, String) {
    refusal(error["code"].as_str().unwrap_or_default(), error["message"].as_str().unwrap_or_default())
}

/// Connects a client that is refused, and returns the error.
fn refused_connection(
    server: &RunningServer,
    transport: Transport,
    query: &str,
    token: &str,
) -> (String, String) {
    let response = match transport {
        Transport::WebSocket => {
            assert_eq!(Client::refusal_code(server.public, query), 4102);
            return refusal("unauthorized", "");
        }
        Transport::Bayeux => {
            let handshake = with_token(bayeux::handshake(), token);
            assert_refused(&BayeuxPolling::connect(server.public).reply(&handshake), "401");
            return refusal("unauthorized", "");
        }
        Transport::Events => request_events(server.public, query, ""),
        Transport::Poll => PollClient::connect(server.public).get(query),
    };
    match response.status {
        // The details are only in the log.
        401 => refusal("unauthorized", ""),
        _ => refusal_of(&response.json()["error"]),
    }
}

/// Waits until the log states that a channel was not joined, and why.
fn failed_join(server: &RunningServer, session: &str) -> (String, String) {
    eventually("a log line", || {
        let mut records = server.logs.records().into_iter();
        let record = records.find(|record| {
            record["session"] == *session && record["message"] == "channel named in the token not joined"
        });
        Some(refusal("not joined", record?["error"].as_str()?))
    })
}

/// Returns the session's subscriptions, except to [`STREAM`].
fn subscriptions(server: &RunningServer, session: &str) -> Vec<String> {
    let session = server.admin.session(session);
    let subscriptions = session["subscriptions"].as_array().expect("a list").iter();
    let names = subscriptions.map(|it| it["channel"].as_str().expect("a name").to_owned());
    names.filter(|name| name != STREAM).collect()
}

impl ClientConnection {
    fn open(server: &RunningServer, transport: Transport, query: &str, token: &str) -> Self {
        match transport {
            Transport::WebSocket => Self::WebSocket(Box::new(Client::connect(server.public, query))),
            Transport::Events => {
                let (stream, hello) = EventStream::greeted(server.public, query);
                let requests = PollClient::connect(server.public);
                Self::Events {
                    stream,
                    requests,
                    query: format!("resume={}&token={token}", hello.resume),
                    hello,
                }
            }
            Transport::Poll => {
                let mut requests = PollClient::connect(server.public);
                let mut received: Vec<Value> =
                    serde_json::from_value(requests.get(query).ok()).expect("an array");
                let hello = Hello::parse(received.remove(0));
                Self::Poll {
                    requests,
                    query: format!("resume={}&token={token}", hello.resume),
                    hello,
                    received,
                }
            }
            Transport::Bayeux => {
                let mut polls = BayeuxPolling::connect(server.public);
                let id = bayeux::client_id(&polls.reply(&with_token(bayeux::handshake(), token)));
                Self::Bayeux(polls, id)
            }
        }
    }

    fn session(&self) -> String {
        match self {
            Self::WebSocket(client) => client.hello.session.clone(),
            Self::Events { hello, .. } | Self::Poll { hello, .. } => hello.session.clone(),
            Self::Bayeux(_, id) => bayeux::session(id),
        }
    }

    /// Waits for the notice that a channel of the URL is refused.
    fn unsubscribed(self) -> (String, String) {
        let notice = match self {
            Self::Events { mut stream, .. } => stream.object().1,
            Self::Poll { mut requests, query, mut received, .. } => {
                if received.is_empty() {
                    received = serde_json::from_value(requests.get(&query).ok()).expect("an array");
                }
                received.remove(0)
            }
            Self::WebSocket(_) | Self::Bayeux(..) => panic!("there are no channels in the URL"),
        };
        refusal("unsubscribed", notice["unsubscribed"]["reason"].as_str().unwrap_or_default())
    }

    /// Sends a command and returns the error, if there is one. `None` if the transport has no such command.
    fn command(&mut self, action: Action, channel: &str) -> Option<Result<(), (String, String)>> {
        let command = match action {
            Action::Subscribe => json!({"id": 1, "subscribe": {"channel": channel}}),
            Action::SubscribeLast => json!({"id": 1, "subscribe": {"channel": channel, "last": 1}}),
            Action::SubscribeSince => {
                json!({"id": 1, "subscribe": {"channel": channel, "since": {"epoch": "e", "offset": 0}}})
            }
            Action::Publish => json!({"id": 1, "publish": {"channel": channel, "data": 1}}),
            Action::Presence => json!({"id": 1, "presence": {"channel": channel}}),
            Action::History => json!({"id": 1, "history": {"channel": channel}}),
            Action::Join | Action::Url => panic!("there is no such command"),
        };
        let reply = match self {
            Self::WebSocket(client) => client.request(command),
            Self::Events { requests, query, .. } | Self::Poll { requests, query, .. } => {
                requests.post(query, command).ok()[0]["reply"].take()
            }
            Self::Bayeux(polls, id) => {
                let message = match action {
                    Action::Subscribe => bayeux::subscribe(id, channel),
                    Action::Publish => bayeux::publish(id, channel, 1),
                    _ => return None,
                };
                let reply = polls.reply(&message);
                let Some(error) = reply["error"].as_str() else { return Some(Ok(())) };
                let parts: Vec<_> = error.splitn(3, ':').collect();
                let code = match parts[0] {
                    "403" => "forbidden",
                    "400" => DENIED.0,
                    other => other,
                };
                return Some(Err(refusal(code, parts[2])));
            }
        };
        let error = &reply["error"];
        Some(if error.is_null() { Ok(()) } else { Err(refusal_of(error)) })
    }
}
