use encke_tests::waiting::{eventually, until};
use encke_tests::{Dashboard, Launch, RunningServer};
use serde_json::json;

use super::access::skip_to_content;

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
    page.await_visible("#key");
    page.fill("#key", key);
    page.press("Enter");
}

#[test]
fn key_is_required_and_not_stored_and_its_scopes_are_respected() {
    let server = server();
    let client = server.client();
    let id = client.hello.session.clone();
    let _client = client.into_background();
    let mut page = Dashboard::open(server.admin.address(), &format!("#/sessions/{id}"));
    page.await_text("h1", "Sign in");
    assert!(page.texts("[role='alert']").is_empty(), "no key was tried yet");
    skip_to_content(&mut page);
    sign_in(&mut page, "some-key-0123456789");
    page.await_text("[role='alert']", "The server does not accept this key.");
    sign_in(&mut page, PUBLISH);
    until("the missing scope is reported", || {
        page.text("[role='alert']").is_some_and(|text| text.contains("lacks the scope read"))
    });
    sign_in(&mut page, ALL);
    page.await_text(".badge", "● attached");
    for key in [ALL, PUBLISH, "some-key-0123456789"] {
        assert_eq!(page.perform("kept", &json!([key])), false, "{key}");
    }
    page.perform("reload", &json!([]));
    // This key allows no actions.
    sign_in(&mut page, READ);
    page.await_text(".badge", "● attached");
    page.await_text(".acts .note", "Your API key lacks the scope sessions.");
    assert_eq!(page.count(".acts button[aria-disabled='true']"), 2);
    page.go("#/channels/news");
    page.await_text("form .note", "Your API key lacks the scope publish.");
    assert_eq!(page.count("fieldset:disabled"), 1);
    page.click("text=Sign out");
    page.await_text("h1", "Sign in");
    page.await_text("#stream b", "signed out");
}

#[test]
fn invalid_key_is_distinguished_from_a_wrong_key() {
    let server = server();
    let mut page = Dashboard::open(server.admin.address(), "#/");
    sign_in(&mut page, "some-key-0123456789");
    page.await_text("[role='alert']", "The server does not accept this key.");
    for (key, fault) in [
        ("“read-key-0123456789”".to_owned(), "U+201C"),
        ("ключ-0123456789".to_owned(), "U+043A"),
        ("read key 0123456789".to_owned(), "U+0020"),
        ("k".repeat(8193), "8,193 characters"),
    ] {
        sign_in(&mut page, &key);
        until(format!("{fault} is reported"), || {
            page.text("[role='alert']").is_some_and(|text| text.contains(fault))
        });
        assert_eq!(page.focused(), "key");
    }
    sign_in(&mut page, &"k".repeat(8192));
    page.await_text("[role='alert']", "The server does not accept this key.");

    page.perform("answer", &json!(["GET", "/api/live", 0]));
    sign_in(&mut page, ALL);
    page.await_text("#stream b", "reconnecting");
    assert!(page.texts("[role='alert']").is_empty(), "the key was not rejected");
}

#[test]
fn sign_out_removes_everything_of_the_last_client() {
    const TOKEN: &str = "of.the.last";
    let server = server();
    let mut page = Dashboard::open(server.admin.address(), "#/playground");
    sign_in(&mut page, ALL);
    page.await_text("h1", "Playground");
    page.click("button:text-is('Connect')");
    let id = eventually("the session is shown", || page.text("main a.id").filter(|id| id.starts_with("s_")));
    page.fill("#token", TOKEN);
    page.click("text=Sign out");
    page.await_text("h1", "Sign in");
    page.await_text("#about", "Encke");
    server.await_removal(&id);
    sign_in(&mut page, READ);
    page.await_text("[data-name='player']", "Not connected.");
    page.await_text("section:has(> h2:text('Frames')) .note", "No frames yet.");
    assert_eq!(page.count("[data-way]"), 0);
    assert_eq!(page.perform("kept", &json!([TOKEN])), false);
    assert_eq!(page.perform("kept", &json!([id])), false);
}
