use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use encke_tests::process::Signal;
use encke_tests::raw::{Dial, TEXT, masked};
use encke_tests::server::run_to_end;
use encke_tests::tls::{VERSIONS, handshake};
use encke_tests::waiting::{MAX_LATENESS, TIMEOUT, eventually, until};
use encke_tests::{Certificate, Launch, RawClient, RunningServer, TlsClient};
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
    let (chain, key) = certificate.write(directory.path());
    let server = Launch::with(settings).set(&set("certificate", &chain)).set(&set("key", &key)).start();
    TlsServer { server, certificate, directory }
}

fn set(name: &str, path: &Path) -> String {
    format!("tls.{name}={}", path.display())
}

impl TlsServer {
    fn client(&self) -> TlsClient {
        TlsClient::connect(self.server.public, &self.certificate)
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
    let served = serve(&[]);
    assert!(served.server.banner.contains("npx wscat -c wss://127.0.0.1:"), "{}", served.server.banner);
    for version in VERSIONS {
        let mut client = TlsClient::connect_with_version(served.server.public, &served.certificate, version);
        client.ping();
        assert_eq!(client.request(r#"{"id":7,"ack":{"seq":0}}"#)["id"], 7);
        let bad = format!(r#"{{"id":8,"{}":{{}}}}"#, "x".repeat(40_000));
        assert_eq!(client.request(&bad)["id"], 8, "a message of several records");
        assert_eq!(client.request(r#"{"id":9,"close":{}}"#)["id"], 9);
        assert_eq!(client.close_code(), (Some(1000), true), "the code, then `close_notify`");
    }
}

#[test]
fn event_stream_works_over_tls() {
    let served = serve(&[]);
    for version in VERSIONS {
        let stream = handshake(served.server.public, &served.certificate, version).expect("trusted");
        let mut stream = BufReader::new(stream);
        let request = b"GET /events?channels=news HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.get_mut().write_all(request).expect("the server reads");
        let mut await_line = |start: &str| {
            let mut lines = stream.by_ref().lines().map(|line| line.expect("the stream goes on"));
            lines.find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no line {start}"))
        };
        assert_eq!(await_line("HTTP/"), "HTTP/1.1 200 OK");
        await_line(r#"data: {"hello":{"version":1,"#);
        let publish = r#"{"id":1,"publish":{"channel":"news","data":7}}"#;
        let offset = served.client().request(publish)["ok"]["offset"].clone();
        let message =
            format!(r#"data: {{"message":{{"seq":1,"channel":"news","offset":{offset},"data":7}}}}"#);
        assert_eq!(await_line("data: "), message);
        let sessions = served.server.admin.get("/api/sessions?phase=attached").json();
        let session =
            sessions["sessions"].as_array().expect("a list").iter().find(|it| it["transport"] == "sse");
        let session = session.expect("the session is listed")["id"].as_str().expect("an id").to_owned();
        assert_eq!(served.server.admin.kick(&session).status, 204);
        assert_eq!(await_line("retry: "), "retry: 2147483647");
        await_line(r#"data: {"goaway":{"reason":"kicked","#);
        let mut rest = Vec::new();
        // Without `close_notify`, this read would fail.
        stream.read_to_end(&mut rest).expect("TLS confirms the end");
        assert_eq!(rest, b"\n");
    }
}

#[test]
fn drain_closes_connections_over_tls() {
    let mut served = serve(&[]);
    let client = served.client();
    served.server.terminate();
    assert_eq!(client.close_code(), (Some(4002), true));
    assert!(served.server.await_exit(TIMEOUT).success());
}

#[test]
fn new_certificate_applies_to_new_connections() {
    let served = serve(&[]);
    let mut old = served.client();
    let new = Certificate::generate();
    assert!(
        handshake(served.server.public, &new, VERSIONS[1]).is_err(),
        "the new certificate is not written yet"
    );
    new.write(served.directory.path());
    served.server.signal(Signal::HUP);
    served.await_certificate(&new);
    assert!(
        handshake(served.server.public, &served.certificate, VERSIONS[1]).is_err(),
        "the old certificate is not used any more"
    );
    old.ping();
    assert_eq!(old.request(r#"{"id":1,"ack":{"seq":0}}"#)["id"], 1);
    TlsClient::connect(served.server.public, &new).ping();
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
    served.server.terminate();
    assert!(served.server.await_exit(TIMEOUT).success());
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
fn sighup_without_a_certificate_does_nothing() {
    let server = RunningServer::with(&[]);
    server.signal(Signal::HUP);
    server.logs.await_line("no certificate to reload");
    server.signal(Signal::HUP);
    server.assert_healthy();
}

#[test]
fn invalid_certificate_files_are_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (chain, key) = Certificate::generate().write(directory.path());
    let other = directory.path().join("other");
    fs::create_dir(&other).expect("the directory can be created");
    let (_, other_key) = Certificate::generate().write(&other);
    for (chain, key, named) in [
        (&chain, &other_key, &other_key),
        (&chain, &chain, &chain),
        (&key, &key, &key),
        (&chain, &directory.path().join("nowhere"), &directory.path().join("nowhere")),
    ] {
        let output = run_to_end(&["--set", &set("certificate", chain), "--set", &set("key", key)], &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&format!("{}: ", named.display())), "{stderr}");
        assert!(!stderr.contains("BEGIN"), "{stderr}");
    }
}

#[test]
fn incomplete_handshake_is_disconnected() {
    let served = serve(&["limits.handshake_timeout=1s"]);
    let client_hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for bytes in [&b""[..], client_hello] {
        let from = Instant::now();
        let mut client = RawClient::connect(served.server.public);
        client.send(bytes);
        let after = client.await_end() - from;
        assert!(
            after >= Duration::from_secs(1) && after <= Duration::from_secs(1) + MAX_LATENESS,
            "{after:?}"
        );
    }
    // A TLS handshake without a request does not extend the timeout.
    let from = Instant::now();
    let mut stream = handshake(served.server.public, &served.certificate, VERSIONS[1]).expect("trusted");
    let ended = std::io::Read::read(&mut stream, &mut [0; 64]);
    assert!(!matches!(ended, Ok(1..)), "{ended:?}");
    assert!(from.elapsed() <= Duration::from_secs(1) + MAX_LATENESS, "{:?}", from.elapsed());
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
    let dial = Dial { receive_buffer: Some(4096), ..Dial::default() };
    let mut client = TlsClient::over(dial.connect(served.server.public), &served.certificate, VERSIONS[1]);
    let session = client.hello.session.clone();
    let suspended = || served.server.admin.phase(&session).as_deref() != Some("attached");
    client.flood(&masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#).repeat(500), suspended);
    served.server.logs.await_lifecycle(&session, &[("opened", "connect"), ("suspended", "slow_consumer")]);
    served.assert_unharmed();
}

/// TLS returns no data before a record is complete, but the bytes received until then show that the client is
/// alive.
#[test]
fn incomplete_record_is_a_sign_of_life() {
    let served = serve(&["session.ping_interval=1s", "session.pong_timeout=500ms"]);
    let mut client = served.client();
    let from = Instant::now();
    client.drip(&masked(TEXT, br#"{"id":1,"ack":{"seq":0}}"#), Duration::from_millis(100));
    assert!(from.elapsed() > Duration::from_secs(3), "longer than the ping and pong timeouts");
    assert_eq!(client.object()["reply"]["id"], 1);
    let events = served.server.logs.lifecycle(&client.hello.session);
    assert_eq!(events.len(), 1, "{events:?}");
}

/// API keys need not be sent in clear text.
#[test]
fn admin_listener_supports_tls() {
    let served = serve(&["tls.admin=true"]);
    let address = served.server.admin.address();
    assert!(served.server.banner.contains(&format!("https://{address}")), "{}", served.server.banner);
    let mut tls = handshake(address, &served.certificate, VERSIONS[1]).expect("a handshake");
    write!(tls, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    tls.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let refused = run_to_end(&["--set", "tls.admin=true"], &[]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(
        stderr.contains("`tls.admin`") && stderr.contains("needs tls.certificate and tls.key"),
        "{stderr}"
    );
}
