use encke_tests::waiting::until;
use encke_tests::{Dashboard, Launch, RunningServer};
use serde_json::json;

const ALL: &str = "all-key-0123456789";
const READ: &str = "read-key-0123456789";
const PUBLISH: &str = "publish-key-0123456789";

fn server() -> RunningServer {
    let keys = [("all", ALL), ("read", READ), ("publish", PUBLISH)];
    let keys =
        keys.map(|(scope, key)| format!("{{name = \"{scope}\", key = \"{key}\", scopes = [\"{scope}\"]}}"));
    Launch::with(&[&format!("auth.api_keys=[{}]", keys.join(", "))]).start()
}

fn sign_in(page: &mut Dashboard, key: &str) {
    page.await_seen("#key");
    page.fill("#key", key);
    page.press("Enter");
}

#[test]
fn a_key_is_asked_for_and_kept_nowhere() {
    let server = server();
    let client = server.client();
    let id = client.hello.session.clone();
    let _client = client.live();
    let mut page = Dashboard::open(server.admin.address(), &format!("#/sessions/{id}"));
    page.await_text("h1", "Sign in");
    assert!(page.texts("[role='alert']").is_empty(), "nobody has tried yet");
    sign_in(&mut page, "some-key-0123456789");
    page.await_text("[role='alert']", "The server does not know this key.");
    sign_in(&mut page, PUBLISH);
    until("its scope is told", || {
        page.text("[role='alert']").is_some_and(|text| text.contains("scopes lack read"))
    });
    sign_in(&mut page, ALL);
    page.await_text(".badge", "● attached");
    for key in [ALL, PUBLISH, "some-key-0123456789"] {
        assert_eq!(page.tell("kept", &json!([key])), false, "{key}");
    }
    page.tell("reload", &json!([]));
    sign_in(&mut page, ALL);
    page.await_text(".badge", "● attached");
    page.click("text=Sign out");
    page.await_text("h1", "Sign in");
    page.await_text("#stream b", "signed out");
}

#[test]
fn a_key_that_only_looks_does_no_more() {
    let server = server();
    let mut client = server.client();
    client.subscribe("news");
    let id = client.hello.session.clone();
    let _client = client.live();
    let mut page = Dashboard::open(server.admin.address(), &format!("#/sessions/{id}"));
    sign_in(&mut page, READ);
    page.await_text(".badge", "● attached");
    page.await_text(".acts .note", "Your key looks, and no more: its scopes lack sessions.");
    assert_eq!(page.count(".acts button:disabled"), 2);
    page.go("#/channels/news");
    page.await_text("form .note", "Your key looks, and no more: its scopes lack publish.");
    assert_eq!(page.count("fieldset:disabled"), 1);
}
