use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use encke_tests::process::Signal;
use encke_tests::raw::{Dial, TEXT, masked};
use encke_tests::server::FREQUENT_PINGS;
use encke_tests::tls::{VERSIONS, handshake};
use encke_tests::waiting::{MAX_LATENESS, eventually, until};
use encke_tests::{Certificate, EventStream, Launch, RawClient, RunningServer, TlsClient, tls};
use serde_json::json;
use tempfile::TempDir;

/// Server with a certificate, and the directory that holds the certificate.
struct TlsServer {
    server: RunningServer,
    certificate: Certificate,
    directory: TempDir,
}

fn serve(settings: &[&str]) -> TlsServer {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let certificate = Certificate::generate();
    let server = Launch::with(settings).with_certificate(&certificate, directory.path()).start();
    TlsServer { server, certificate, directory }
}

impl TlsServer {
    fn client(&self) -> TlsClient {
        tls::client(self.server.public, &self.certificate)
    }

    /// Waits until the server presents `certificate` on new connections.
    #[track_caller]
    fn await_certificate(&self, certificate: &Certificate) {
        until("new connections see the certificate", || {
            handshake(self.server.public, certificate, VERSIONS[1]).is_ok()
        });
    }

    fn assert_unharmed(&self) {
        assert_eq!(self.server.admin.get("/healthz").status, 200);
        assert!(!self.client().hello.recovered);
    }
}

#[test]
fn websocket_works_over_tls() {
    let mut served = serve(&[]);
    assert!(served.server.banner.contains("npx wscat -c wss://127.0.0.1:"), "{}", served.server.banner);
    for version in VERSIONS {
        let mut client =
            tls::client_over(Dial::default().connect(served.server.public), &served.certificate, version);
        client.ping();
        assert_eq!(client.request(r#"{"id":7,"ack":{"seq":0}}"#)["id"], 7);
        let bad = format!(r#"{{"id":8,"{}":{{}}}}"#, "x".repeat(40_000));
        assert_eq!(client.request(&bad)["id"], 8, "a message of several records");
        assert_eq!(client.request(r#"{"id":9,"close":{}}"#)["id"], 9);
        assert_eq!(client.close_code_and_notify(), (Some(1000), true), "the code, then `close_notify`");
    }
    let client = served.client();
    served.server.terminate();
    assert_eq!(client.close_code_and_notify(), (Some(4002), true));
    assert!(served.server.await_exit().success());
}

#[test]
fn event_stream_works_over_tls() {
    let served = serve(&[]);
    for version in VERSIONS {
        let stream = handshake(served.server.public, &served.certificate, version).expect("trusted");
        let mut events = EventStream::over(stream, "channels=news", "");
        let hello = events.hello();
        let publish = r#"{"id":1,"publish":{"channel":"news","data":7}}"#;
        let offset = served.client().request(publish)["ok"]["offset"].clone();
        let message = json!({"seq": 1, "channel": "news", "offset": offset, "data": 7});
        assert_eq!(events.object().1["message"], message);
        assert_eq!(served.server.admin.kick(&hello.session).status, 204);
        assert_eq!(events.block().as_deref(), Some("retry: 2147483647"));
        assert_eq!(events.object().1["goaway"]["reason"], "kicked");
        assert_eq!(events.block(), None);
        assert!(events.connection.has_received_notify(), "TLS confirms the end");
    }
}

#[test]
fn new_certificate_applies_to_new_connections() {
    let served = serve(&[]);
    let mut old = served.client();
    let new = Certificate::generate();
    let is_used = |certificate| handshake(served.server.public, certificate, VERSIONS[1]).is_ok();
    assert!(!is_used(&new), "the new certificate is not written yet");
    new.write(served.directory.path());
    served.server.signal(Signal::HUP);
    served.await_certificate(&new);
    assert!(!is_used(&served.certificate), "the old certificate is not used any more");
    old.ping();
    assert_eq!(old.request(r#"{"id":1,"ack":{"seq":0}}"#)["id"], 1);
    tls::client(served.server.public, &new).ping();
    served.server.logs.await_line("certificate reloaded");
}

/// The key file is a pipe without a writer: reading it blocks forever.
#[test]
fn blocking_certificate_file_does_not_block_the_server() {
    let mut served = serve(&[]);
    let key = served.directory.path().join("key.pem");
    fs::remove_file(&key).expect("the file exists");
    assert!(Command::new("mkfifo").arg(&key).status().is_ok_and(|status| status.success()));
    // Two signals may arrive as one, so keep sending.
    until("a second reload is refused", || {
        served.server.signal(Signal::HUP);
        served.server.logs.count("still reading one of these files") > 0
    });
    served.client().ping();
    served.server.stop();
}

#[test]
fn invalid_files_leave_the_old_certificate() {
    let served = serve(&[]);
    let mut old = served.client();
    let [chain, key] = ["certificate.pem", "key.pem"].map(|name| served.directory.path().join(name));
    let [good_chain, good_key] = [&chain, &key].map(|path| fs::read(path).expect("the file exists"));
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let (_, other_key) = Certificate::generate().write(elsewhere.path());
    let other_key = fs::read(other_key).expect("the file exists");
    let bad: [(&[u8], &[u8], &PathBuf, &str); 5] = [
        (b"nonsense", &good_key, &chain, "contains no PEM certificate"),
        (&good_key, &good_key, &chain, "contains no PEM certificate"),
        (&good_chain, &good_chain, &key, "contains no PEM private key"),
        (&good_chain, &good_key[..60], &key, "PEM"),
        // Half of a replacement: the other file would follow before the next signal.
        (&good_chain, &other_key, &key, "does not belong to the certificate"),
    ];
    let failed_reloads = || {
        let lines = served.server.logs.lines().into_iter();
        lines.filter(|line| line.contains("certificate not reloaded")).collect::<Vec<_>>()
    };
    for (number, (chain_text, key_text, named, problem)) in bad.into_iter().enumerate() {
        fs::write(&chain, chain_text).expect("the file can be written");
        fs::write(&key, key_text).expect("the file can be written");
        served.server.signal(Signal::HUP);
        let line = eventually("a failed reload is logged", || failed_reloads().get(number).cloned());
        assert!(line.contains(problem) && line.contains(&*named.to_string_lossy()), "{line}");
        served.client().ping();
    }
    fs::remove_file(&key).expect("the file exists");
    served.server.signal(Signal::HUP);
    let line = eventually("a failed reload is logged", || failed_reloads().get(bad.len()).cloned());
    assert!(line.contains("cannot be read"), "{line}");
    old.ping();
    served.assert_unharmed();
}

#[test]
fn incomplete_handshake_is_disconnected() {
    const HANDSHAKE: Duration = Duration::from_secs(3);
    let served = serve(&["limits.handshake_timeout=3s"]);
    let client_hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for bytes in [&b""[..], client_hello] {
        let from = Instant::now();
        let mut client = RawClient::connect(served.server.public);
        client.send(bytes);
        let after = client.await_end() - from;
        assert!((HANDSHAKE..=HANDSHAKE + MAX_LATENESS).contains(&after), "{after:?}");
    }
    // A TLS handshake without a request does not extend the timeout.
    let from = Instant::now();
    let mut stream = handshake(served.server.public, &served.certificate, VERSIONS[1]).expect("trusted");
    let ended = std::io::Read::read(&mut stream, &mut [0; 64]);
    assert!(!matches!(ended, Ok(1..)), "{ended:?}");
    assert!(from.elapsed() <= HANDSHAKE + MAX_LATENESS, "{:?}", from.elapsed());
    served.assert_unharmed();
}

#[test]
fn server_survives_clients_without_tls() {
    let served = serve(&[]);
    for bytes in [&b"GET /ws HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0x16; 1000], &[0xff; 1000]] {
        let mut client = RawClient::connect(served.server.public);
        client.send(bytes);
        client.await_end();
    }
    let mut client = TcpStream::connect(served.server.public).expect("the server accepts");
    client.write_all(b"\x16\x03").expect("the server reads");
    drop(client);
    served.assert_unharmed();
}

#[test]
fn client_that_does_not_read_over_tls_is_disconnected() {
    let served = serve(&["session.write_timeout=1s", "session.close_timeout=500ms"]);
    let socket = Dial::with_receive_buffer(4096).connect(served.server.public);
    let mut client = tls::client_over(socket, &served.certificate, VERSIONS[1]);
    let session = client.hello.session.clone();
    let suspended = || served.server.admin.phase(&session).as_deref() != Some("attached");
    client.flood(&masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#).repeat(500), suspended);
    served.server.await_lifecycle(&session, "opened connect, suspended slow_consumer");
    served.assert_unharmed();
}

/// TLS returns no data before a record is complete, but the bytes received until then show that the client is
/// alive.
#[test]
fn incomplete_record_is_a_sign_of_life() {
    let served = serve(&FREQUENT_PINGS);
    let mut client = served.client();
    let from = Instant::now();
    client.drip(&masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#), Duration::from_millis(250));
    assert!(from.elapsed() > Duration::from_secs(12), "longer than the ping and pong timeouts");
    assert_eq!(client.object()["reply"]["id"], 1);
    let events = served.server.logs.lifecycle(&client.hello.session);
    assert_eq!(events.len(), 1, "{events:?}");
}
