use encke_tests::RunningServer;
use encke_tests::bayeux::{
    BayeuxPolling, JSON, assert_refused, assert_successful, connect_now, events, messages, post, publish,
    with_field,
};
use serde_json::{Value, json};

use super::assert_refused_with_any_code;

#[test]
fn publish_is_answered_with_its_id() {
    let server = RunningServer::with(&[]);
    let (mut polls, id) = BayeuxPolling::opened(server.public, &["/news"]);
    let body = format!(
        r#"[{{"id":"9","channel":"/news","clientId":"{id}","data":{{"a":"\u2028\ud83c\udf0d","b":1.50}}}}]"#
    );
    let replies = messages(&polls.requests.exchange(post("/bayeux/", JSON, &body)));
    let [reply] = &replies[..] else { panic!("{replies:?}") };
    assert_successful(reply);
    assert_eq!((&reply["id"], &reply["channel"]), (&json!("9"), &json!("/news")));
    let answer = polls.request(&connect_now(&id));
    assert_eq!(answer[0]["channel"], "/news");
    assert_eq!(events(&answer), [json!({"a": "\u{2028}\u{1f30d}", "b": 1.5})]);
    // A message without an id is answered as well.
    let mut nameless = publish(&id, "/news", 2);
    nameless.as_object_mut().expect("an object").remove("id");
    let reply = polls.reply(&nameless);
    assert_successful(&reply);
    assert_eq!(reply["id"], Value::Null);
    assert_eq!(events(&polls.request(&connect_now(&id))), [2]);
    // Every JSON value is delivered.
    let all = [
        json!(null),
        json!(false),
        json!(0),
        json!(""),
        json!([]),
        json!({}),
        json!({"channel": "/meta/connect"}),
    ];
    for data in &all {
        assert_successful(&polls.reply(&publish(&id, "/news", data.clone())));
    }
    assert_eq!(events(&polls.request(&connect_now(&id))), all);
}

#[test]
fn invalid_publishes_are_refused() {
    let server = RunningServer::with(&[]);
    let (mut polls, id) = BayeuxPolling::opened(server.public, &["/**"]);
    for channel in ["/a/*", "/a/**", "/*", "/**", "$x", "", "news\n"] {
        let reply = polls.reply(&publish(&id, channel, 1));
        assert_refused_with_any_code(&reply);
        assert_eq!(reply["id"], "p", "{channel}");
    }
    for channel in ["/meta/nonsense", "/meta/", "/meta/connect/x"] {
        assert_refused_with_any_code(&polls.reply(&publish(&id, channel, 1)));
    }
    // No hook handles these service channels.
    for channel in ["/service/x", "/service/x/y"] {
        let reply = polls.reply(&publish(&id, channel, 1));
        assert_refused(&reply, "404");
        let error = reply["error"].as_str().expect("an error");
        assert!(error.starts_with(&format!("404:{channel}:")), "{error}");
    }
    // Incomplete messages are refused, too.
    for field in ["data", "clientId", "channel"] {
        let mut message = publish(&id, "/news", 1);
        message.as_object_mut().expect("an object").remove(field);
        assert_refused_with_any_code(&polls.reply(&message));
    }
    assert_refused_with_any_code(&polls.reply(&with_field(publish(&id, "/news", 1), "channel", 7)));
    assert_eq!(events(&polls.request(&connect_now(&id))), [] as [i32; 0]);
}
