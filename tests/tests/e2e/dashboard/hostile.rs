use encke_tests::Dashboard;
use encke_tests::waiting::until;
use serde_json::json;

use super::{named, quoted, with_names};

/// What others may name a channel or a user: markup, what ends an attribute, letters that turn what follows around, and as long as may be.
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

/// No element that such a name could make is there, and no attribute.
#[track_caller]
fn assert_harmless(page: &mut Dashboard) {
    for made in [
        "main img",
        "script:not([src='/dashboard/main.js'])",
        "[onerror]",
        "[onfocus]",
        "[href^='javascript:' i]",
    ] {
        assert_eq!(page.count(made), 0, "{made}");
    }
    let widths = page.perform("widths", &json!([]));
    assert_eq!(widths[0], widths[1], "nothing is too wide");
    page.assert_no_fault();
}

#[test]
fn names_and_data_of_others_are_never_markup() {
    let server = with_names(&[]);
    let names = hostile_names();
    let clients: Vec<_> = names
        .iter()
        .map(|name| {
            let mut client = named(&server, name);
            let reply = client.request(&json!({"id": 1, "subscribe": {"channel": name}}).to_string());
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
        until("all users are there", || {
            let shown = page.texts(".list .name");
            names.iter().all(|name| shown.contains(name))
        });
        assert_harmless(&mut page);
        page.go("#/channels");
        for sort in ["rate", "bytes", "followers"] {
            until("all channels are there", || {
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
