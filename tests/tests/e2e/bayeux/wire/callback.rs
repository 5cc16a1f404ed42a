use encke_tests::bayeux::{connect_now, handshake, publish, session};
use encke_tests::{PollClient, RunningServer};
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

#[test]
fn callback_polling_answers_with_a_call() {
    let server = RunningServer::with(&[ON]);
    let mut requests = PollClient::connect(server.public);
    let mut ask = |callback: &str, message: &Value| {
        let answer = requests.exchange(get(callback, message));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.header("content-type").is_some_and(|kind| kind.starts_with("text/javascript")));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let array = answer.body.strip_prefix(&format!("/**/{callback}("));
        let array = array.and_then(|rest| rest.trim_end().strip_suffix(");"));
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
    server.await_lifecycle(&session(&id), "opened connect");
}

/// Callback-polling is off by default because any page could send such a request with a script element, without
/// revealing its origin.
#[test]
fn invalid_callback_name_is_refused() {
    let server = RunningServer::with(&[ON]);
    let is_off = RunningServer::with(&[]);
    let answer = PollClient::connect(is_off.public).exchange(get("callback", &json!([handshake()])));
    assert!((400..500).contains(&answer.status), "{answer:?}");
    let mut requests = PollClient::connect(server.public);
    for name in ["", "alert(1)//", "a b", "<script>", "ü", "a\r\nb", &"a".repeat(1000)] {
        let answer = requests.exchange(get(name, &handshake()));
        assert_eq!(answer.status, 400, "{name:.20}: {answer:?}");
        assert!(name.is_empty() || !answer.body.contains(name), "{answer:?}");
    }
    for server in [server, is_off] {
        assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
    }
}
