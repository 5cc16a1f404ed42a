//! Tests that sessions resume over connections that break at random bytes. `ENCKE_SEED=<n>` runs one seed;
//! without it, a fixed seed and a random one run.

use std::time::Instant;

use encke_tests::raw::{PING, PONG, RawClient, TEXT, masked};
use encke_tests::relay::Fate;
use encke_tests::waiting::TIMEOUT;
use encke_tests::{Hello, Relay, RunningServer};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const MESSAGES: u64 = 2_000;

/// Uses one connection until it is cut or the last message arrives. `seq` is the seq of the last complete
/// message.
fn read_connection(relay: &Relay, hello: &Hello, seq: &mut u64, rng: &mut SmallRng) {
    let mut client = RawClient::connect(relay.address);
    client.upgrade(&format!("resume={}&seq={seq}", hello.resume));
    let mut is_greeted = false;
    while *seq < MESSAGES {
        let Ok(frame) = client.frame_within(TIMEOUT) else { return };
        let frame = frame.expect("a frame arrives in time");
        let text = String::from_utf8_lossy(&frame.payload);
        // The connection may have been cut. The next read reports it.
        let _ = match frame.first {
            TEXT if is_greeted => {
                *seq += 1;
                let message = format!(
                    r#"{{"message":{{"seq":{seq},"channel":"news","offset":{seq},"data":"message {seq}"}}}}"#
                );
                assert_eq!(text, message);
                let ack = masked(TEXT, format!(r#"{{"ack":{{"seq":{seq}}}}}"#).as_bytes());
                if rng.random_ratio(1, 50) { client.try_send(&ack) } else { Ok(()) }
            }
            TEXT => {
                let again = Hello::parse(serde_json::from_str(&text).expect("the server sends JSON"));
                assert!(again.recovered && again.session == hello.session, "{again:?}");
                assert_eq!(again.object["hello"]["seq"], *seq);
                is_greeted = true;
                Ok(())
            }
            PING => client.try_send(masked(PONG, &frame.payload)),
            first => panic!("a frame {first:#04x}: {text}"),
        };
    }
}

fn run(seed: u64, max_unacked: u64) {
    let server = RunningServer::with(&[
        &format!("session.max_unacked={max_unacked}"),
        "channel.history_messages=4096",
        "channel.history_bytes=8MiB",
        "limits.commands_per_second=0",
    ]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    assert!(client.text_message().contains(r#""offset":0"#));
    drop(client);
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut fates = SmallRng::seed_from_u64(seed);
    // Cut within the hello or later.
    let relay = Relay::new(server.public, move || match fates.random_range(0..10) {
        0 => Fate::Cut(fates.random_range(200..500)),
        1 => Fate::Cut(fates.random_range(200..50_000)),
        _ => Fate::Cut(fates.random_range(300..4_000)),
    });
    let mut publisher = server.client();
    let (mut seq, mut connections) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let messages = (1..=MESSAGES).map(|number| format!("\"message {number}\""));
            assert_eq!(publisher.publish("news", messages), MESSAGES);
        });
        let until = Instant::now() + 3 * TIMEOUT;
        while seq < MESSAGES {
            assert!(Instant::now() < until, "{seq} after {connections} connections");
            connections += 1;
            read_connection(&relay, &hello, &mut seq, &mut rng);
        }
    });
    assert!(connections > 10, "{connections} connections");
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value("encke_gaps_total"), 0.0);
    assert_eq!(metrics.value("encke_resumes_total{outcome=\"new_session\"}"), 0.0);
    assert_eq!(metrics.events("opened", "connect"), 2.0, "the reader's session and the publisher's");
    server.assert_healthy();
}

#[test]
fn every_message_arrives_once_and_in_order_wherever_the_stream_is_cut() {
    encke_seeds::with_seeds(1..2, |seed| {
        // A ring of 1024 entries is never full. A ring of 16 always is, so that only pongs and acks let more
        // messages through.
        run(seed, 1024);
        run(seed, 16);
    });
}
