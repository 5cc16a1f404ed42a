use encke_tests::waiting::until;
use encke_tests::{Dashboard, RunningServer};
use serde_json::json;

#[test]
fn axe_finds_nothing_serious_on_any_page() {
    let server = RunningServer::with_tokens(&["limits.max_channels=1"]);
    let mut alice = server.client_of("alice");
    alice.subscribe("news");
    server.admin.publish("news", json!({"any": "json", "long": "x".repeat(1000)}));
    let id = alice.hello.session.clone();
    let _alice = alice.into_background();
    let mut page = Dashboard::open(server.admin.address(), "#/");
    let session = format!("#/sessions/{id}");
    let places = [
        ("#/", "canvas"),
        ("#/sessions", ".list tbody th"),
        (&session, ".events b"),
        ("#/channels", "[data-sort='rate']"),
        ("#/channels/news", ".log code"),
        ("#/limits", ".word:text('full')"),
        ("#/playground", "#token"),
        ("#/nowhere", "h1"),
    ];
    for (place, seen) in places {
        page.go(place);
        until(format!("{place} is drawn"), || page.count(seen) > 0);
        if place == session {
            check_accessibility(&mut page, place);
            page.click("text=End session…");
            check_accessibility(&mut page, "the confirmation");
            page.press("Escape");
            continue;
        }
        check_accessibility(&mut page, place);
    }
    for document in ["docs", "docs/guides/chat", "docs/operations/admin", "docs/reference/configuration"] {
        let mut page = Dashboard::open(server.admin.address(), document);
        page.await_visible("h1");
        check_accessibility(&mut page, document);
    }
}

/// Checks a page with axe, and for horizontal scrolling, in both colour schemes and window sizes.
#[track_caller]
fn check_accessibility(page: &mut Dashboard, place: &str) {
    for (scheme, width, height) in [("light", 360, 800), ("dark", 1280, 800)] {
        page.perform("view", &json!([{ "width": width, "height": height, "colorScheme": scheme }]));
        let view = format!("{place}, {scheme}, {width} wide");
        assert_eq!(page.perform("axe", &json!([])), json!([]), "{view}");
        let widths = page.perform("widths", &json!([]));
        assert_eq!(widths[0], widths[1], "{view}: the page does not scroll sideways");
    }
}

/// Each page has a title and takes the focus. The skip link keeps the page.
#[test]
fn pages_are_reached_by_keyboard() {
    let server = RunningServer::with(&[]);
    let mut page = Dashboard::open(server.admin.address(), "#/");
    page.await_text("h1", "Overview");
    for title in ["Sessions", "Channels", "Limits", "Playground", "Overview"] {
        page.tab_to(title);
        page.press("Enter");
        page.await_text("h1", title);
        until("the heading has the focus", || page.focused() == title);
        assert_eq!(page.perform("title", &json!([])), format!("{title} · Encke"));
        page.await_texts("nav [aria-current]", &[title]);
    }
    page.go("#/nowhere/x");
    page.await_text("h1", "Page not found");
    assert_eq!(page.perform("title", &json!([])), "Not found · Encke");
    page.go("#/sessions/");
    page.await_text("h1", "Sessions");
    assert_eq!(page.perform("title", &json!([])), "Sessions · Encke");

    page.go("#/channels/news");
    page.await_text("h1", "Channel");
    page.fill("#data", "not to be lost");
    skip_to_content(&mut page);
    page.await_text("h1", "Channel");
    assert_eq!(page.perform("title", &json!([])), "news · Encke");
    assert_eq!(page.perform("kept", &json!(["not to be lost"])), true);
    assert_eq!(page.perform("kept", &json!(["/#/channels/news"])), true, "the address is unchanged");
}

#[track_caller]
pub(super) fn skip_to_content(page: &mut Dashboard) {
    page.tab_to("Skip to the content");
    page.press("Enter");
    until("the content has the focus", || page.count("main:focus") == 1);
}

/// The navigation leads to the documents and their sections, and the skip link past the navigation.
#[test]
fn documents_are_read_by_keyboard() {
    let server = RunningServer::with(&[]);
    for (document, section) in [("Presence", "Joins and leaves"), ("Sizing", "Descriptors")] {
        let mut page = Dashboard::open(server.admin.address(), "docs");
        page.tab_to(document);
        page.press("Enter");
        page.await_text("h1", document);
        page.await_texts("nav [aria-current]", &[document]);
        page.tab_to(section);
        page.press("Enter");
        until(format!("{section} is shown"), || page.count("h2:target") == 1);
    }
    let mut page = Dashboard::open(server.admin.address(), "docs/guides/chat");
    skip_to_content(&mut page);
}
