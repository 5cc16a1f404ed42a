//! Tests of `expire`, which waits until a timeout of the server closes its connections.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::fake_server::{Behaviour, FakeServer};
use crate::run::{loadgen, number};

/// Starts a server that closes silent clients, the first one after `first` and the rest after `others`. It
/// keeps clients that send something.
async fn impatient(first: Duration, others: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    tokio::spawn(async move {
        for index in 0.. {
            let (mut stream, _) = listener.accept().await.expect("accepting works");
            tokio::spawn(async move {
                let limit = if index == 0 { first } else { others };
                if timeout(limit, stream.read(&mut [0])).await.is_ok() {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    format!("ws://{address}/ws")
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_timed_from_the_connect() {
    let url = impatient(Duration::from_millis(300), Duration::from_millis(700)).await;
    let run = format!(
        "expire {url} --connections 10 --rate 1000 --duration 5s --after 600ms --without upgrade --json -"
    );
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    let json = ended.json();
    for (field, value) in [
        ("connected", json!(10)),
        ("closed", json!(10)),
        ("early", json!(1)),
        ("still_open", json!(0)),
        ("after_seconds", json!(0.6)),
        ("without", json!("upgrade")),
    ] {
        assert_eq!(json[field], value, "{field} in {json:#}");
    }
    assert_eq!(json["lateness_ms"]["count"], 9);
    // The server's wait begins when it accepts the connections, possibly slightly before the clients know
    // that they are connected.
    assert!(number(&json, "/lateness_ms/p50") >= 90.0, "{json:#}");
    assert!(number(&json, "/elapsed_seconds") < 5.0, "the run ends with the last connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn open_connections_and_other_codes_are_counted_separately() {
    let server = FakeServer::start(|index| match index {
        0..3 => Behaviour::CloseWith(4004),
        3..5 => Behaviour::CloseWith(4002),
        _ => Behaviour::GiveUpAfter(Duration::from_secs(10)),
    })
    .await;
    let run = format!(
        "expire {} --connections 10 --rate 1000 --duration 500ms --after 0s --code 4004 --json -",
        server.url()
    );
    let json = loadgen(&run).await.json();
    for (field, value) in [
        ("connected", 10),
        ("closed", 3),
        ("early", 0),
        ("other_closes", 2),
        ("still_open", 5),
        ("code", 4004),
    ] {
        assert_eq!(json[field], value, "{field} in {json:#}");
    }
    assert_eq!(json["close_codes"], json!({"4002": 2, "4004": 3}));
    assert!(number(&json, "/pings") >= 5.0, "{json:#}");
}
