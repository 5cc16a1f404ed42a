use encke_tests::waiting::until;
use encke_tests::{Dashboard, Launch, RunningServer};
use serde_json::json;

#[test]
fn channel_page_shows_its_log_its_subscribers_and_a_form() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    client.subscribe("news");
    let session = client.hello.session.clone();
    let client = client.into_background();
    server.admin.publish("news", "first");
    let mut page = Dashboard::open(server.admin.address(), "#/channels");
    page.fill("#channel", "news");
    page.press("Enter");
    page.await_text("h1", "Channel");
    page.await_texts(".log code", &["\"first\""]);
    page.await_texts("section:has(> h2:text('Subscribers')) tbody th", &[&session]);

    page.fill("#data", "{\"second\": ");
    page.click("form .main");
    until("the error is shown at the field", || {
        page.text("#data-problem").is_some_and(|text| text.starts_with("Invalid JSON: "))
    });
    let invalid = page.perform("attribute", &json!(["#data", "aria-invalid"]));
    assert_eq!((invalid, page.focused()), ("true".into(), "data".to_owned()));
    page.fill("#data", "{\"second\": [2, \"ü\"]}");
    page.click("form .main");
    page.await_texts(".log code", &["{\"second\":[2,\"ü\"]}", "\"first\""]);
    page.await_text("[data-name='last']", "2");
    page.await_text("[data-name='subscribers']", "1");
    let log = server.admin.get("/api/channels/news/history").json();
    assert_eq!(log["messages"][1]["data"]["second"][0], 2);
    drop(client);
    page.await_text("section:has(> h2:text('Subscribers')) tbody .badge", "◐ suspended");

    // The dashboard must not parse and reformat JSON: JavaScript's numbers have only 53 bits of precision. A
    // double click publishes once, and long data is cut between characters.
    let written = r#"{"a":9007199254740993,"b":[1e300,1.0,0.12345678901234567890]}"#;
    page.go("#/channels/exact");
    let notice = "This channel does not exist at the moment. It is created when a client subscribes or a \
                  message is published to it.";
    page.await_text(".notice", notice);
    page.fill("#data", written);
    page.perform("click", &json!(["form .main", {"clickCount": 2}]));
    page.await_text("form [role='status']", "Published with offset 1.");
    page.await_texts(".log code", &[written]);
    assert!(page.texts(".notice").is_empty());
    let log = server.admin.get("/api/channels/exact/history").body;
    assert!(log.contains(&format!("\"data\":{written}")), "{log}");
    page.fill("#data", "2");
    page.click("form .main");
    page.await_texts(".log code", &["2", written]);

    let beginning = "x".repeat(598);
    server.admin.publish("long", format!("{beginning}🪐{beginning}"));
    page.go("#/channels/long");
    page.await_texts(".log code", &[&format!("\"{beginning}")]);
    page.click("summary");
    page.await_texts(".log details code", &[&format!("🪐{beginning}\"")]);
}

/// The new log has the same offsets as the old one, so the page cannot tell them apart by offset.
#[test]
fn log_shows_new_messages_after_a_restart() {
    let server = RunningServer::with(&[]);
    for number in 0..3 {
        server.admin.publish("news", format!("old {number}"));
    }
    let mut page = Dashboard::open(server.admin.address(), "#/channels/news");
    page.await_texts(".log code", &["\"old 2\"", "\"old 1\"", "\"old 0\""]);
    let [public, admin] = [server.public, server.admin.address()].map(|address| address.to_string());
    drop(server);
    let server = Launch::listening_on_both(&public, &admin).start();
    for number in 0..2 {
        server.admin.publish("news", format!("new {number}"));
    }
    page.await_texts(".log code", &["\"new 1\"", "\"new 0\""]);
}
