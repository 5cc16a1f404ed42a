use encke_tests::proxy::Proxy;
use encke_tests::stock::{ALL, BayeuxTransport};
use encke_tests::{RunningServer, BayeuxLibrary};
use serde_json::json;

use super::{Running, publish, start, up_to};

/// nginx as it comes, with no more than an address to pass requests on to: it buffers, speaks HTTP/1.0, and closes each connection.
#[test]
fn behind_nginx_with_its_defaults() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let proxy = Proxy::nginx_with_defaults(&server, "");
    let polling = ALL.iter().copied().filter(|(_, transport)| *transport == BayeuxTransport::LongPolling);
    through(&server, &proxy, &Vec::from_iter(polling));
}

/// With the three lines that nginx needs to pass a WebSocket on.
#[test]
fn behind_nginx_that_upgrades() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let upgrade = "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; \
                   proxy_set_header Connection \"upgrade\";";
    let proxy = Proxy::nginx_with_defaults(&server, upgrade);
    through(&server, &proxy, &ALL);
}

fn through(server: &RunningServer, proxy: &Proxy, which: &[(BayeuxLibrary, BayeuxTransport)]) {
    let mut all = start(which, proxy.address, &["/news", "/a/**"]);
    let count = all.len() as u64;
    for (running, number) in all.iter_mut().zip(1..) {
        running.client.publish("/a/who", number);
    }
    publish(server, "/news", 1..=10);
    for Running { client, name, .. } in &all {
        client.await_delivered("/news", &up_to(10));
        encke_tests::waiting::until(format!("{name} hears all others"), || {
            client.delivered("/a/who").len() as u64 >= count
        });
        let mut heard: Vec<_> = client.delivered("/a/who").iter().filter_map(serde_json::Value::as_u64).collect();
        heard.sort_unstable();
        assert_eq!(heard, Vec::from_iter(1..=count), "{name}");
        // One hold at least has passed through it.
        client.await_object("connect", 3);
    }
    for running in &mut all {
        running.client.send_command(&json!({"disconnect": true}));
    }
    for running in &all {
        server.await_removal(&running.session);
    }
}
