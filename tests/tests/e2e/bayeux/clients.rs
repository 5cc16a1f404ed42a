use std::collections::BTreeMap;

use encke_tests::bayeux::{BayeuxPolling, connect_now, events, publish};
use encke_tests::stock::BayeuxTransport;
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, BayeuxLibrary, Client, PollClient, RunningServer};
use serde_json::{Value, json};

use super::{start_all, up_to};

#[test]
fn each_stock_client_subscribes_publishes_and_disconnects_on_each_transport() {
    let server = RunningServer::with(&[]);
    let mut all = start_all(server.public, &["/news"]);
    for (running, number) in all.iter_mut().zip(0..) {
        let (name, own) = (&running.name, format!("/own/{number}"));
        let session = server.admin.session(&running.session);
        assert_eq!(
            (&session["phase"], &session["dialect"]),
            (&json!("attached"), &json!("bayeux")),
            "{name}"
        );
        let client = &mut running.client;
        client.subscribe(&own);
        let data = json!({"text": "\"ü\u{1f30d}\u{2028}\n", "n": [1, null, 0.5]});
        client.publish(&own, data.clone());
        client.await_delivered(&own, &[data]);
        let reply = client.await_value("publish", 1);
        assert_eq!((&reply["successful"], &reply["channel"]), (&json!(true), &json!(own)), "{name}");

        client.send_command(&json!({ "unsubscribe": own }));
        assert_eq!(client.await_value("unsubscribe", 1)["successful"], true, "{name}");
        server.admin.publish(&own, "without a subscriber");
    }
    server.admin.publish("/news", 1);
    for (running, number) in all.iter_mut().zip(0..) {
        running.client.await_delivered("/news", &up_to(1));
        assert_eq!(running.client.received(&format!("/own/{number}")).len(), 1, "{}", running.name);
        running.client.send_command(&json!({"disconnect": true}));
    }
    for running in &all {
        running.client.await_object("disconnected", 1);
        server.await_removal(&running.session);
        until(format!("the log has the end of {}", running.name), || {
            let last = server.logs.lifecycle(&running.session).pop();
            last == Some(("closed".into(), "client".into()))
        });
    }
}

/// Publishing to a service channel calls the backend. CometD has an API for remote calls; other clients
/// listen to the channel.
#[test]
fn stock_clients_call_the_backend() {
    let backend = Backend::start();
    backend.reply_with(|request| {
        let request = request.json();
        BackendReply::json(json!({"data": {"method": request["method"], "echo": request["data"]}}))
    });
    let server = RunningServer::with(&[&format!("backend.call={}", backend.url("/call"))]);
    for running in &mut start_all(server.public, &["/news"]) {
        let (name, client) = (&running.name, &mut running.client);
        let answer = json!({"method": "/service/echo", "echo": [1, "a"]});
        if running.stock == BayeuxLibrary::CometD {
            client.send_command(&json!({"call": ["echo", [1, "a"]]}));
            let called = client.await_value("called", 1);
            assert_eq!(called["data"], answer, "{name}");
        }
        client.publish("/service/echo", json!([1, "a"]));
        let publishes = if running.stock == BayeuxLibrary::CometD { 2 } else { 1 };
        assert_eq!(client.await_value("publish", publishes)["successful"], true, "{name}");
        until(format!("{name} has the answer"), || client.received("/service/echo").last() == Some(&answer));
    }
}

/// Every client publishes numbers to one channel to which all clients are subscribed: CometD, Faye and
/// aiocometd, a raw poller, and the `json` dialect over WebSocket and polls. All clients see the same
/// messages in the same order.
#[test]
fn all_publishes_reach_all_clients_once_and_in_order() {
    const MESSAGES: u64 = 15;
    let server = RunningServer::with(&[]);
    let mut all = start_all(server.public, &["/all"]);
    let mut json_socket = server.client();
    json_socket.subscribe("/all");
    let mut json_poll = PollClient::connect(server.public);
    let resume = json_poll.get("channels=/all").json()[0]["hello"]["resume"].clone();
    let resume = resume.as_str().expect("a hello has a token");
    let mut raw = BayeuxPolling::connect(server.public);
    let raw_id = raw.open(&["/all"]);

    let names = all.len() as u64 + 3;
    for number in 1..=MESSAGES {
        for (running, name) in all.iter_mut().zip(0..) {
            running.client.publish("/all", json!([name, number]));
        }
        let [socket, poll, bayeux] = [names - 3, names - 2, names - 1].map(|name| json!([name, number]));
        json_socket.send(&format!(r#"{{"publish":{{"channel":"/all","data":{socket}}}}}"#));
        let command = format!(r#"{{"id":1,"publish":{{"channel":"/all","data":{poll}}}}}"#);
        assert_eq!(json_poll.post(&format!("resume={resume}"), &command).status, 200);
        let mut publisher = BayeuxPolling::connect(server.public);
        let reply = publisher.request(&publish(&raw_id, "/all", bayeux));
        assert_eq!(reply.last().map(|reply| &reply["successful"]), Some(&json!(true)), "{reply:?}");
        // The raw poller receives messages only with replies to connects, so there is nothing to collect from
        // this reply.
        assert_eq!(events(&reply), [] as [Value; 0]);
    }

    let total = usize::try_from(names * MESSAGES).expect("the number is small");
    let seen = json_messages(&mut json_socket, total);
    // Faye sends several requests simultaneously on separate connections. The request that is read first is
    // published first.
    let is_concurrent = |name: u64| {
        let running = all.get(usize::try_from(name).expect("the number is small"));
        running
            .is_some_and(|it| (it.stock, it.transport) == (BayeuxLibrary::Faye, BayeuxTransport::LongPolling))
    };
    assert_complete(&seen, names, MESSAGES, is_concurrent);
    for running in &all {
        until(format!("{} has all {total}", running.name), || running.client.received("/all").len() >= total);
    }
    let mut polled: Vec<Value> = Vec::new();
    let mut seq = json!(0);
    while polled.len() < total {
        for object in
            json_poll.get(&format!("resume={resume}&seq={seq}")).json().as_array().expect("an array")
        {
            seq = object["message"]["seq"].clone();
            polled.push(object["message"]["data"].clone());
        }
    }
    let mut raw_messages = Vec::new();
    while raw_messages.len() < total {
        raw_messages.extend(events(&raw.request(&connect_now(&raw_id))));
    }
    for (name, received) in all
        .iter()
        .map(|running| (&*running.name, running.client.received("/all")))
        .chain([("a json poll", polled), ("a raw poll", raw_messages)])
    {
        assert_eq!(received, seen, "{name}");
    }
}

/// Returns the data of the messages that a `json` client receives.
#[track_caller]
fn json_messages(client: &mut Client, count: usize) -> Vec<Value> {
    std::iter::from_fn(|| Some(client.object()))
        .filter_map(|object| object.get("message").map(|message| message["data"].clone()))
        .take(count)
        .collect()
}

/// Asserts that each publisher's numbers arrived exactly once, and in order unless the publisher is
/// concurrent.
#[track_caller]
fn assert_complete(seen: &[Value], publishers: u64, each: u64, is_concurrent: impl Fn(u64) -> bool) {
    let mut of = BTreeMap::<u64, Vec<Value>>::new();
    for data in seen {
        of.entry(data[0].as_u64().expect("a name")).or_default().push(data[1].clone());
    }
    assert_eq!(of.keys().copied().collect::<Vec<_>>(), Vec::from_iter(0..publishers));
    for (publisher, mut numbers) in of {
        if is_concurrent(publisher) {
            numbers.sort_by_key(Value::as_u64);
        }
        assert_eq!(numbers, up_to(each), "of {publisher}");
    }
}

/// A message arrives once, regardless of how many subscriptions match. Channels that are created later match
/// as well.
#[test]
fn wildcards_deliver_each_message_once() {
    let server = RunningServer::with(&[]);
    let patterns = ["/a/*", "/a/**", "/a/b"];
    let mut all = start_all(server.public, &patterns);
    for (number, channel) in (1..).zip(["/a/b", "/a/b/c", "/a/d", "/a/b", "/b/a", "/a", "/a/b/c/d/e"]) {
        server.admin.publish(channel, number);
    }
    server.admin.publish("/a/z", "last");
    let expected =
        [("/a/b", json!([1, 4])), ("/a/b/c", json!([2])), ("/a/d", json!([3])), ("/a/b/c/d/e", json!([7]))];
    for running in &all {
        until(format!("{} has all", running.name), || !running.client.received("/a/z").is_empty());
        for (channel, data) in &expected {
            assert_eq!(json!(running.client.received(channel)), *data, "{channel} for {}", running.name);
        }
        assert_eq!(running.client.count("came"), 6, "{}", running.name);
    }
    // Remove one of the three patterns. Messages that match another one still arrive.
    for running in &mut all {
        running.client.send_command(&json!({"unsubscribe": "/a/**"}));
        assert_eq!(running.client.await_value("unsubscribe", 1)["successful"], true, "{}", running.name);
    }
    for channel in ["/a/b/c", "/a/b", "/a/y"] {
        server.admin.publish(channel, "after");
    }
    for running in &all {
        until(format!("{} has the last", running.name), || !running.client.received("/a/y").is_empty());
        assert_eq!(running.client.received("/a/b").len(), 3, "{}", running.name);
        assert_eq!(running.client.received("/a/b/c").len(), 1, "{}", running.name);
    }
}

/// The client receives the reason for the refusal and continues.
#[test]
fn stock_client_continues_after_a_refusal() {
    let server = RunningServer::with(&["limits.max_subscriptions=2"]);
    let mut all = start_all(server.public, &["/one", "/two"]);
    for running in &mut all {
        let (client, name) = (&mut running.client, &running.name);
        client.send_command(&json!({"subscribe": "/three"}));
        let refused = || {
            let replies = client.values("subscribe");
            replies.iter().any(|reply| reply["successful"] == false && reply["subscription"] == "/three")
        };
        until(format!("{name} is refused"), refused);
        client.publish("/service/nothing", 1);
        let reply = client.await_value("publish", 1);
        assert_eq!(reply["successful"], false, "{name}");
        assert!(
            reply["error"].as_str().is_some_and(|error| error.starts_with("404:/service/nothing:")),
            "{reply}"
        );
    }
    server.admin.publish("/two", 1);
    for running in &all {
        running.client.await_delivered("/two", &up_to(1));
    }
}
