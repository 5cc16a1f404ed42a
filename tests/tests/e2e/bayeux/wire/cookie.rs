use encke_tests::bayeux::{
    BayeuxPolling, JSON, client_id, connect, connect_now, disconnect, handshake, messages, post,
};
use encke_tests::{Certificate, Launch, PollClient, RunningServer, tls};
use serde_json::{Value, json};

use super::{await_held, connect_reply};

const NAME: &str = "BAYEUX_BROWSER";

/// Returns the cookie as `name=value`, and its attributes in lower case and sorted.
#[track_caller]
fn cookie(set_cookie: &str) -> (String, Vec<String>) {
    let mut parts = set_cookie.split(';').map(str::trim);
    let pair = parts.next().expect("a cookie").to_owned();
    assert!(pair.starts_with(&format!("{NAME}=")), "{set_cookie}");
    assert!(pair.len() >= NAME.len() + 1 + 16, "the cookie cannot be guessed: {set_cookie}");
    let mut attributes: Vec<_> = parts.map(str::to_lowercase).collect();
    attributes.sort();
    (pair, attributes)
}

/// A connection of a browser that has a cookie.
struct Browser {
    requests: PollClient,
    cookie: String,
}

impl Browser {
    fn new(server: &RunningServer) -> (Self, String) {
        let mut requests = PollClient::connect(server.public);
        requests.send(&post("/bayeux", JSON, &handshake().to_string()));
        let answer = requests.response();
        let (cookie, _) = cookie(answer.header("set-cookie").expect("a cookie"));
        (Self { requests, cookie }, client_id(&messages(&answer)[0]))
    }

    /// Opens a second tab.
    fn tab(&self, server: &RunningServer) -> (Self, String) {
        let mut tab = Self { requests: PollClient::connect(server.public), cookie: self.cookie.clone() };
        tab.send(&handshake());
        let answer = tab.requests.response();
        assert_eq!(answer.header("set-cookie"), None, "the browser has a cookie");
        (tab, client_id(&messages(&answer)[0]))
    }

    fn send(&mut self, message: &Value) {
        // Put the cookie among others, as browsers do.
        let headers = format!("{JSON}Cookie: theme=dark; {}; a=b\r\n", self.cookie);
        self.requests.send(&post("/bayeux", &headers, &message.to_string()));
    }

    #[track_caller]
    fn reply(&mut self, message: &Value) -> Value {
        self.send(message);
        connect_reply(&messages(&self.requests.response())).clone()
    }
}

#[test]
fn a_browser_gets_a_cookie_that_scripts_cannot_read() {
    let server = RunningServer::with(&[]);
    let mut cookies = Vec::new();
    for _ in 0..2 {
        let mut requests = PollClient::connect(server.public);
        requests.send(&post("/bayeux", JSON, &handshake().to_string()));
        let answer = requests.response();
        let (pair, attributes) = cookie(answer.header("set-cookie").expect("a cookie"));
        assert!(
            attributes.contains(&"httponly".into()) && attributes.contains(&"samesite=lax".into()),
            "{attributes:?}"
        );
        assert!(!attributes.contains(&"secure".into()), "{attributes:?}");
        // The cookie does not outlive the browser session.
        assert!(
            !attributes
                .iter()
                .any(|attributes| attributes.starts_with("expires") || attributes.starts_with("max-age")),
            "{attributes:?}"
        );
        cookies.push(pair);
    }
    assert_ne!(cookies[0], cookies[1]);
}

/// A browser sends the cookie from a page of another site only with these attributes.
#[test]
fn cookie_over_tls_works_for_an_allowed_origin() {
    const ALLOWED_ORIGIN: &str = "https://app.example";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let certificate = Certificate::generate();
    let (chain, key) = certificate.write(directory.path());
    let set = |name: &str, path: &std::path::Path| format!("tls.{name}={}", path.display());
    let server = Launch::default()
        .set(&set("certificate", &chain))
        .set(&set("key", &key))
        .set(&format!(r#"auth.origins=["{ALLOWED_ORIGIN}"]"#))
        .start();
    for (headers, site) in
        [(format!("{JSON}Origin: {ALLOWED_ORIGIN}\r\n"), "samesite=none"), (JSON.into(), "samesite=lax")]
    {
        let stream = tls::handshake(server.public, &certificate, tls::VERSIONS[1]).expect("trusted");
        let mut requests = PollClient::over(stream);
        requests.send(&post("/bayeux", &headers, &handshake().to_string()));
        let answer = requests.response();
        let (_, attributes) = cookie(answer.header("set-cookie").expect("a cookie"));
        assert!(
            attributes.contains(&"httponly".into()) && attributes.contains(&site.into()),
            "{attributes:?}"
        );
        if site == "samesite=none" {
            assert!(attributes.contains(&"secure".into()), "{attributes:?}");
        }
    }
}

/// A browser opens few connections to a server. Without the limit, a second tab with a held poll would use
/// all of them.
#[test]
fn second_tab_of_a_browser_polls_at_intervals() {
    let server = RunningServer::with(&[]);
    let (mut one, one_id) = Browser::new(&server);
    let (mut two, two_id) = one.tab(&server);
    one.reply(&connect_now(&one_id));
    two.reply(&connect_now(&two_id));
    one.send(&connect(&one_id));
    await_held(&server, &one_id);
    for _ in 0..2 {
        let reply = two.reply(&connect(&two_id));
        assert_eq!(reply["successful"], true);
        let advice = &reply["advice"];
        assert_eq!(
            (&advice["multiple-clients"], &advice["interval"]),
            (&json!(true), &json!(2000)),
            "{reply}"
        );
        assert_eq!(advice["reconnect"], "retry");
    }
    // Another browser is not affected.
    let (mut other, other_id) = Browser::new(&server);
    other.reply(&connect_now(&other_id));
    other.send(&connect(&other_id));
    await_held(&server, &other_id);
    // Close the first tab. The second tab's connects are held again, and it is advised that the pause is
    // over.
    let mut last = BayeuxPolling::connect(server.public);
    last.reply(&disconnect(&one_id));
    encke_tests::waiting::until("no connect of the first tab is held", || {
        server.admin.metrics().value(r#"encke_connections{transport="poll",dialect="bayeux"}"#) <= 1.0
    });
    two.send(&connect(&two_id));
    await_held(&server, &two_id);
    server.admin.kick(&encke_tests::bayeux::session(&other_id));
    let mut third = BayeuxPolling::connect(server.public);
    third.reply(&connect_now(&two_id));
    assert_eq!(connect_reply(&messages(&two.requests.response()))["channel"], "/meta/connect");
}

#[test]
fn next_answer_after_the_pause_revokes_it() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let (mut one, one_id) = Browser::new(&server);
    let (mut two, two_id) = one.tab(&server);
    one.reply(&connect_now(&one_id));
    two.reply(&connect_now(&two_id));
    one.send(&connect(&one_id));
    await_held(&server, &one_id);
    assert_eq!(two.reply(&connect(&two_id))["advice"]["interval"], 2000);
    one.requests.response();
    let reply = two.reply(&connect(&two_id));
    assert_eq!(reply["advice"]["interval"], 0, "{reply}");
    assert_ne!(reply["advice"]["multiple-clients"], true, "{reply}");
}

#[test]
fn limit_can_be_changed_or_disabled() {
    for (limit, tabs) in [(2, 2), (0, 5)] {
        let server = RunningServer::with(&[&format!("bayeux.polls_per_browser={limit}")]);
        let known = |cookie| Browser { requests: PollClient::connect(server.public), cookie };
        // Use a cookie from a server that has a limit.
        let first = known(format!("{NAME}=0123456789abcdef0123456789abcdef"));
        let mut all: Vec<_> = (0..tabs).map(|_| first.tab(&server)).collect();
        for (tab, id) in &mut all {
            tab.reply(&connect_now(id));
            tab.send(&connect(id));
            await_held(&server, id);
        }
        if limit != 0 {
            let (mut more, id) = first.tab(&server);
            more.reply(&connect_now(&id));
            assert_eq!(more.reply(&connect(&id))["advice"]["multiple-clients"], true);
        }
    }
}

/// A tab polls again while its last request is still held, as after a page reload that the server has not
/// noticed.
#[test]
fn repeated_poll_of_a_tab_does_not_count_as_a_second_tab() {
    let server = RunningServer::with(&[]);
    let (mut tab, id) = Browser::new(&server);
    tab.reply(&connect_now(&id));
    tab.send(&connect(&id));
    await_held(&server, &id);
    let mut again = Browser { requests: PollClient::connect(server.public), cookie: tab.cookie.clone() };
    again.send(&connect(&id));
    connect_reply(&messages(&tab.requests.response()));
    await_held(&server, &id);
}

/// The cookie identifies a browser, not a session. A made-up cookie does no harm.
#[test]
fn the_cookie_authorizes_nothing() {
    let server = RunningServer::with(&[]);
    let (mut one, one_id) = Browser::new(&server);
    one.send(&connect_now("s_unknown.unknown"));
    let reply = messages(&one.requests.response()).remove(0);
    encke_tests::bayeux::assert_refused(&reply, "402");
    for made_up in ["", "x", &"x".repeat(4000), "\"quoted\"", "a=b"] {
        one.cookie = format!("{NAME}={made_up}");
        assert_eq!(one.reply(&connect_now(&one_id))["successful"], true, "{made_up:.10}");
    }
}
