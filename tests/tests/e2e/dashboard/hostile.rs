use encke_tests::waiting::until;
use encke_tests::{Dashboard, RunningServer};
use serde_json::json;

use super::quoted;

/// Names that clients may choose for channels and users: markup, text that ends an attribute, characters that
/// reverse the direction of text, and a name of the maximum length.
fn hostile_names() -> Vec<String> {
    let markup = "<img src=x onerror=alert(1)>";
    let long = format!("{markup}{}", "w".repeat(255 - markup.len()));
    let short = [
        markup,
        "\"><script>alert(2)</script>",
        "'onfocus='alert(3)' autofocus='",
        "\u{202e}evil\u{2066}",
        "javascript:alert(4)",
        "../../api/sessions?x=#/",
    ];
    short.into_iter().map(str::to_owned).chain([long]).collect()
}

/// Asserts that the page has no element or attribute that such a name could create.
#[track_caller]
fn assert_harmless(page: &mut Dashboard) {
    for injected in [
        "main img",
        "script:not([src='/dashboard/main.js'])",
        "[onerror]",
        "[onfocus]",
        "[href^='javascript:' i]",
    ] {
        assert_eq!(page.count(injected), 0, "{injected}");
    }
    let widths = page.perform("widths", &json!([]));
    assert_eq!(widths[0], widths[1], "the page does not scroll sideways");
    page.assert_no_fault();
}

#[test]
fn names_and_data_are_never_treated_as_markup() {
    let server = RunningServer::with_tokens(&[]);
    let names = hostile_names();
    let clients: Vec<_> = names
        .iter()
        .map(|name| {
            let mut client = server.client_of(name);
            let reply = client.request(json!({"id": 1, "subscribe": {"channel": name}}));
            assert_eq!(reply["ok"]["channel"], **name, "{reply}");
            server.admin.publish(name, json!({ "<b onclick=alert(5)>": name }));
            (client.hello.session.clone(), client.into_background())
        })
        .collect();
    let mut page = Dashboard::open(server.admin.address(), "#/");
    page.await_text("#stream b", "live");
    for (width, height) in [(1280, 800), (390, 844)] {
        page.perform("view", &json!([{ "width": width, "height": height }]));
        page.go("#/sessions");
        until("all users are listed", || {
            let shown = page.texts(".list .name");
            names.iter().all(|name| shown.contains(name))
        });
        assert_harmless(&mut page);
        page.go("#/channels");
        for sort in ["rate", "bytes", "subscribers"] {
            until("all channels are listed", || {
                let shown = page.texts(&format!("tr:has([data-sort='{sort}']) .name"));
                names.iter().all(|name| shown.contains(name))
            });
        }
        assert_harmless(&mut page);
    }
    for (name, (id, _)) in names.iter().zip(&clients) {
        page.go("#/sessions");
        page.click(&format!("a[href='#/sessions/{id}']"));
        page.await_text("[data-name='user']", name);
        page.await_texts("section:has(> h2:text('Subscriptions')) .name", &[name]);
        assert_harmless(&mut page);
        page.click("section:has(> h2:text('Subscriptions')) tbody a");
        page.await_text("h1", "Channel");
        page.await_text("main .heading .name", name);
        page.await_texts(".log code", &[&format!("{{\"<b onclick=alert(5)>\":{}}}", quoted(name))]);
        page.await_text("section:has(> h2:text('Subscribers')) .name", name);
        assert_eq!(page.perform("title", &json!([])), format!("{name} · Encke").trim_start());
        assert_harmless(&mut page);
    }
}
