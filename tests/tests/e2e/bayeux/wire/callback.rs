use encke_tests::bayeux::{BayeuxPolling, connect_now, handshake, publish, session};
use encke_tests::{Launch, PollClient, RunningServer};
use serde_json::{Value, json};

const ON: &str = "bayeux.callback_polling=true";

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn get(callback: &str, message: &Value) -> String {
    format!(
        "GET /bayeux?jsonp={}&message={} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        encode(callback),
        encode(&message.to_string())
    )
}

/// It is off because any page could send such a request with a script element, without revealing its origin.
#[test]
fn callback_polling_is_off_by_default() {
    let server = RunningServer::with(&[]);
    let mut requests = PollClient::connect(server.public);
    requests.send(&get("callback", &json!([handshake()])));
    let answer = requests.response();
    assert!((400..500).contains(&answer.status), "{answer:?}");
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
}

#[test]
fn callback_polling_answers_with_a_call() {
    let server = Launch::with(&[ON]).start();
    let mut requests = PollClient::connect(server.public);
    let mut ask = |callback: &str, message: &Value| {
        requests.send(&get(callback, message));
        let answer = requests.response();
        assert_eq!(answer.status, 200, "{answer:?}");
        let content_type = answer.header("content-type").expect("a type");
        assert!(
            content_type.starts_with("text/javascript") || content_type.starts_with("application/javascript")
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let array = answer.body.strip_prefix(&format!("/**/{callback}(")).and_then(|rest| {
            let rest = rest.trim_end();
            rest.strip_suffix(");").or_else(|| rest.strip_suffix(')'))
        });
        let array = array.unwrap_or_else(|| panic!("no call: {}", answer.body));
        assert!(!array.contains(['\u{2028}', '\u{2029}']), "{array}");
        serde_json::from_str::<Vec<Value>>(array).expect("the argument is JSON")
    };
    let reply = ask("callback", &handshake()).remove(0);
    let id = encke_tests::bayeux::client_id(&reply);
    let types = reply["supportedConnectionTypes"].as_array().expect("an array");
    assert!(types.contains(&json!("callback-polling")), "{types:?}");
    // This is Faye's name for forms that a page sends to another origin.
    assert!(types.contains(&json!("cross-origin-long-polling")), "{types:?}");
    let subscribe = encke_tests::bayeux::subscribe(&id, "/news");
    assert_eq!(ask("org.cometd._callback7", &subscribe)[0]["successful"], true);
    assert_eq!(ask("__jsonp1__", &json!([publish(&id, "/news", "\u{2028}\u{2029}")]))[0]["successful"], true);
    let answer = ask("$", &json!([connect_now(&id)]));
    assert_eq!(encke_tests::bayeux::events(&answer), ["\u{2028}\u{2029}"]);
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
}

#[test]
fn invalid_callback_name_is_refused() {
    let server = Launch::with(&[ON]).start();
    let mut requests = PollClient::connect(server.public);
    for name in ["", "alert(1)//", "a b", "a;b", "<script>", "ü", "a\r\nb", "1a", "a-b", &"a".repeat(1000)] {
        requests.send(&get(name, &handshake()));
        let answer = requests.response();
        assert_eq!(answer.status, 400, "{name:.20}: {answer:?}");
        assert!(name.is_empty() || !answer.body.contains(name), "{answer:?}");
    }
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
    let mut polls = BayeuxPolling::connect(server.public);
    polls.handshake();
}
