use encke_tests::proxy::Proxy;
use encke_tests::stock::{ALL, BayeuxTransport};
use encke_tests::{BayeuxLibrary, RunningServer};
use serde_json::json;

use super::{StartedClient, start, up_to};

/// nginx is configured only with the address of the server: it buffers, uses HTTP/1.0 and closes each
/// connection.
#[test]
fn polling_works_behind_nginx_with_its_defaults() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let proxy = Proxy::nginx_with_defaults(&server, "");
    let polling = ALL.iter().copied().filter(|(_, transport)| *transport == BayeuxTransport::LongPolling);
    check_clients(&server, &proxy, &Vec::from_iter(polling));
}

/// nginx has the three directives that it needs to forward a WebSocket.
#[test]
fn all_transports_work_behind_nginx_that_upgrades() {
    let server = RunningServer::with(&["session.poll_hold=1s"]);
    let upgrade = "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; \
                   proxy_set_header Connection \"upgrade\";";
    let proxy = Proxy::nginx_with_defaults(&server, upgrade);
    check_clients(&server, &proxy, &ALL);
}

fn check_clients(server: &RunningServer, proxy: &Proxy, selected: &[(BayeuxLibrary, BayeuxTransport)]) {
    let mut all = start(selected, proxy.address, &["/news", "/a/**"]);
    let count = all.len() as u64;
    for (running, number) in all.iter_mut().zip(1..) {
        running.client.publish("/a/who", number);
    }
    server.admin.publish_each("/news", 1..=10);
    for StartedClient { client, name, .. } in &all {
        client.await_delivered("/news", &up_to(10));
        encke_tests::waiting::until(format!("{name} has the messages of all others"), || {
            client.delivered("/a/who").len() as u64 >= count
        });
        let mut received: Vec<_> =
            client.delivered("/a/who").iter().filter_map(serde_json::Value::as_u64).collect();
        received.sort_unstable();
        assert_eq!(received, Vec::from_iter(1..=count), "{name}");
        // At least one held connect has passed through the proxy.
        client.await_object("connect", 3);
    }
    for running in &mut all {
        running.client.send_command(&json!({"disconnect": true}));
    }
    for running in &all {
        server.await_removal(&running.session);
    }
}
