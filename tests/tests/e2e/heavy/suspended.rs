use encke_tests::Launch;
use encke_tests::crowd::{await_sessions, connect, require_descriptors};
use encke_tests::raw::RawClient;
use encke_tests::waiting::heavy_test_lock;

const CLIENTS: usize = 2_000;
/// Maximum number of messages in the log, which is full before anything is measured.
const LOG_MESSAGES: u64 = 100;
const ROUNDS: u64 = 10;
const MEBIBYTE: u64 = 1 << 20;

/// A suspended session costs only its cursors, regardless of how much is published.
#[test]
fn suspended_sessions_on_a_busy_channel_use_constant_memory() {
    let _lock = heavy_test_lock();
    require_descriptors(CLIENTS);
    let settings = [
        // Clients do not answer pings while they wait for others.
        "session.ping_interval=10m",
        "session.reconnect_window=10m",
        "limits.commands_per_second=0",
        "channel.history_messages=100",
        "log.level=warn",
    ];
    let server = Launch::with(&settings).start();
    let mut clients = connect(&server, &vec![String::new(); CLIENTS]);
    for (client, _) in &mut clients {
        client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    }
    for (client, _) in &mut clients {
        client.text_message();
    }
    let mut publisher = server.client();
    let data = format!("\"{}\"", "x".repeat(1000));
    let mut publish = || publisher.publish("news", (0..LOG_MESSAGES).map(|_| &data));
    publish();
    for (client, _) in &mut clients {
        (0..LOG_MESSAGES).for_each(|_| drop(client.text_message()));
    }
    let resume: Vec<_> = clients.into_iter().map(|(_, hello)| hello.resume).collect();
    await_sessions(&server, "suspended", CLIENTS);

    publish();
    let before = server.settled_bytes();
    for _ in 0..ROUNDS {
        publish();
    }
    let grown = server.settled_bytes().saturating_sub(before);
    println!("grown by {grown} bytes from {before}");
    assert!(grown < MEBIBYTE, "grown by {grown} bytes");

    let last = LOG_MESSAGES * (2 + ROUNDS);
    let last_evicted = last - LOG_MESSAGES;
    for token in resume.iter().step_by(CLIENTS / 10) {
        let (mut client, hello) =
            RawClient::greeted(server.public, &format!("resume={token}&seq={LOG_MESSAGES}"));
        assert!(hello.recovered);
        let line = client.text_message();
        let lost_range = format!(r#""from":{},"to":{last_evicted}"#, LOG_MESSAGES + 1);
        assert!(line.starts_with(r#"{"gap":{"seq":101,"#) && line.contains(&lost_range), "{line}");
        for (seq, offset) in (LOG_MESSAGES + 2..).zip(last_evicted + 1..=last) {
            let line = client.text_message();
            let begin = format!(r#"{{"message":{{"seq":{seq},"channel":"news","offset":{offset},"#);
            assert!(line.starts_with(&begin), "{line}");
        }
    }
    server.assert_healthy();
}
