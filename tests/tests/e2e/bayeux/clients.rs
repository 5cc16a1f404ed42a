use encke_tests::bayeux::{BayeuxPolling, connect_now, events, publish};
use encke_tests::stock::BayeuxTransport;
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, BayeuxLibrary, RunningServer};
use serde_json::{Value, json};

use super::{StartedClient, start_all, up_to};

/// Each stock client subscribes, publishes, is refused, calls the backend, unsubscribes and disconnects on each
/// transport.
#[test]
fn each_stock_client_uses_the_whole_protocol_on_each_transport() {
    let backend = Backend::start();
    backend.reply_with(|request| {
        let request = request.json();
        BackendReply::json(json!({"data": {"method": request["method"], "echo": request["data"]}}))
    });
    let call = format!("backend.call={}", backend.url("/call"));
    let server = RunningServer::with(&["limits.max_subscriptions=5", &call]);
    let mut all = start_all(server.public, &["/news", "/a/*", "/a/**", "/a/b"]);
    for (running, number) in all.iter_mut().zip(0..) {
        let (name, session) = (&running.name, server.admin.session(&running.session));
        assert_eq!([&session["phase"], &session["dialect"]], ["attached", "bayeux"], "{name}");
        publish_and_call(running, &format!("/own/{number}"));
        server.admin.publish(&format!("/own/{number}"), "without a subscriber");
    }
    assert_wildcards_deliver_each_message_once(&server, &mut all);
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

/// Subscribes to a channel, publishes to it, and unsubscribes. A further subscription is refused. Then
/// publishes to a service channel, which calls the backend. CometD has an API for remote calls; other clients
/// listen to the channel.
#[track_caller]
fn publish_and_call(running: &mut StartedClient, own: &str) {
    let (name, client) = (&running.name, &mut running.client);
    client.subscribe(own);
    let data = json!({"text": "\"ü\u{1f30d}\u{2028}\n", "n": [1, null, 0.5]});
    client.publish(own, data.clone());
    client.await_delivered(own, &[data]);
    let reply = client.await_value("publish", 1);
    assert_eq!((&reply["successful"], &reply["channel"]), (&json!(true), &json!(own)), "{name}");

    client.send_command(&json!({"subscribe": "/too/many"}));
    until(format!("{name} is refused"), || {
        let replies = client.values("subscribe");
        replies.iter().any(|reply| reply["successful"] == false && reply["subscription"] == "/too/many")
    });

    let answer = json!({"method": "/service/echo", "echo": [1, "a"]});
    let mut publishes = 1;
    if running.stock == BayeuxLibrary::CometD {
        client.send_command(&json!({"call": ["echo", [1, "a"]]}));
        assert_eq!(client.await_value("called", 1)["data"], answer, "{name}");
        publishes += 1;
    }
    client.publish("/service/echo", json!([1, "a"]));
    assert_eq!(client.await_value("publish", publishes + 1)["successful"], true, "{name}");
    until(format!("{name} has the answer"), || client.received("/service/echo").last() == Some(&answer));

    client.send_command(&json!({ "unsubscribe": own }));
    assert_eq!(client.await_value("unsubscribe", 1)["successful"], true, "{name}");
}

/// Asserts that a message arrives once, regardless of how many subscriptions match. Channels that are created
/// later match as well, and so do messages that match a remaining pattern after another one was removed.
#[track_caller]
fn assert_wildcards_deliver_each_message_once(server: &RunningServer, all: &mut [StartedClient]) {
    for (number, channel) in (1..).zip(["/a/b", "/a/b/c", "/a/d", "/a/b", "/b/a", "/a", "/a/b/c/d/e"]) {
        server.admin.publish(channel, number);
    }
    server.admin.publish("/a/z", "last");
    let expected =
        [("/a/b", json!([1, 4])), ("/a/b/c", json!([2])), ("/a/d", json!([3])), ("/a/b/c/d/e", json!([7]))];
    for running in &mut *all {
        until(format!("{} has all", running.name), || !running.client.received("/a/z").is_empty());
        for (channel, data) in &expected {
            assert_eq!(json!(running.client.received(channel)), *data, "{channel} for {}", running.name);
        }
        for foreign in ["/b/a", "/a"] {
            assert_eq!(running.client.received(foreign), [] as [Value; 0], "{}", running.name);
        }
        running.client.send_command(&json!({"unsubscribe": "/a/**"}));
        assert_eq!(running.client.await_value("unsubscribe", 2)["successful"], true, "{}", running.name);
    }
    for channel in ["/a/b/c", "/a/b", "/a/y"] {
        server.admin.publish(channel, "after");
    }
    for running in all {
        until(format!("{} has the last", running.name), || !running.client.received("/a/y").is_empty());
        assert_eq!(running.client.received("/a/b").len(), 3, "{}", running.name);
        assert_eq!(running.client.received("/a/b/c").len(), 1, "{}", running.name);
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
    let (mut json_poll, hello) = crate::poll::open(&server, "/all");
    let (mut raw, raw_id) = BayeuxPolling::opened(server.public, &["/all"]);

    let names = all.len() as u64 + 3;
    for number in 1..=MESSAGES {
        for (running, name) in all.iter_mut().zip(0..) {
            running.client.publish("/all", json!([name, number]));
        }
        let [socket, poll, bayeux] = [names - 3, names - 2, names - 1].map(|name| json!([name, number]));
        json_socket.send(json!({"publish": {"channel": "/all", "data": socket}}));
        let command = json!({"id": 1, "publish": {"channel": "/all", "data": poll}}).to_string();
        assert_eq!(json_poll.post(&format!("resume={}", hello.resume), &command).status, 200);
        let reply = BayeuxPolling::connect(server.public).request(&publish(&raw_id, "/all", bayeux));
        assert_eq!(reply.last().map(|reply| &reply["successful"]), Some(&json!(true)), "{reply:?}");
        // The raw poller receives messages only with replies to connects, so there is nothing to collect from
        // this reply.
        assert_eq!(events(&reply), [] as [Value; 0]);
    }

    let total = usize::try_from(names * MESSAGES).expect("the number is small");
    let objects = std::iter::repeat_with(|| json_socket.object());
    let messages = objects.filter_map(|object| object.get("message").map(|message| message["data"].clone()));
    let seen: Vec<_> = messages.take(total).collect();
    for publisher in 0..names {
        let mut numbers: Vec<_> =
            seen.iter().filter(|data| data[0] == publisher).map(|data| data[1].clone()).collect();
        // Faye sends several requests simultaneously on separate connections. The request that is read first
        // is published first.
        let running = usize::try_from(publisher).ok().and_then(|index| all.get(index));
        let concurrent = (BayeuxLibrary::Faye, BayeuxTransport::LongPolling);
        if running.is_some_and(|it| (it.stock, it.transport) == concurrent) {
            numbers.sort_by_key(Value::as_u64);
        }
        assert_eq!(numbers, up_to(MESSAGES), "of {publisher}");
    }
    for running in &all {
        until(format!("{} has all {total}", running.name), || running.client.received("/all").len() >= total);
    }
    let mut polled = Vec::new();
    while polled.len() < total {
        let answer = json_poll.get(&crate::poll::poll_query(&hello, polled.len() as u64)).json();
        let objects = answer.as_array().expect("an array").iter();
        polled.extend(objects.map(|object| object["message"]["data"].clone()));
    }
    let mut raw_messages = Vec::new();
    while raw_messages.len() < total {
        raw_messages.extend(events(&raw.request(&connect_now(&raw_id))));
    }
    for running in &all {
        assert_eq!(running.client.received("/all"), seen, "{}", running.name);
    }
    assert_eq!([polled, raw_messages], [&*seen, &seen]);
}
