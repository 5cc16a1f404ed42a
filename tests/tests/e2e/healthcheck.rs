use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Output;
use std::thread;

use encke_tests::server::run_to_end;
use encke_tests::{Certificate, Launch, RawClient, RunningServer};

fn ask(admin: SocketAddr, arguments: &[&str]) -> Output {
    run_to_end(&[&["healthcheck"], arguments].concat(), &[("ENCKE_LISTEN__ADMIN", &admin.to_string())])
}

#[track_caller]
fn assert_healthy(output: &Output) {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an answer in JSON");
    assert_eq!(answer["status"], "ok");
}

/// Asserts that the check fails and prints `why`. It must exit with status 1, because container engines
/// reserve 2.
#[track_caller]
fn assert_unhealthy(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(why), "{stderr}");
}

#[test]
fn healthy_server() {
    let server = RunningServer::with(&["auth.api_keys=[\"0123456789abcdef\"]"]);
    assert_healthy(&ask(server.admin.address(), &[]));
    assert_healthy(&ask(server.admin.address(), &["--ready"]));
    let address = server.admin.address().to_string();
    assert_healthy(&run_to_end(&["healthcheck", "--admin", &address], &[]));
    assert_healthy(&run_to_end(&["healthcheck", "--set", &format!("listen.admin={address}")], &[]));
}

#[test]
fn server_on_all_addresses_is_checked_over_loopback() {
    let server = Launch::listening_on_both("127.0.0.1:0", "0.0.0.0:0").argument("--insecure").start();
    assert_healthy(&ask((Ipv4Addr::UNSPECIFIED, server.admin.address().port()).into(), &[]));
}

#[test]
fn certificate_for_other_names_is_accepted() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (certificate, key) = Certificate::generate().write(folder.path());
    let settings = [
        "tls.admin=true".to_owned(),
        format!("tls.certificate={}", certificate.display()),
        format!("tls.key={}", key.display()),
    ];
    let server = RunningServer::with(&settings.each_ref().map(String::as_str));
    let with_settings = settings.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
    assert_healthy(&ask(server.admin.address(), &with_settings));
    assert_unhealthy(&ask(server.admin.address(), &[]), "/healthz: ");
    // The check does not need the key: the user that runs it may not be allowed to read the key, and the key
    // on disk may be a new one that is invalid.
    std::fs::remove_file(&key).expect("the key exists");
    assert_healthy(&ask(server.admin.address(), &with_settings));
}

#[test]
fn draining_server_is_healthy_but_not_ready() {
    let server = RunningServer::with(&["shutdown.drain=60s", "session.close_timeout=60s"]);
    // This client reads its goaway but keeps the connection open, so the drain continues.
    let (mut stays, _) = RawClient::greeted(server.public, "");
    server.terminate();
    stays.object();
    assert_unhealthy(&ask(server.admin.address(), &["--ready"]), "/readyz: 503");
    assert_healthy(&ask(server.admin.address(), &[]));
}

#[test]
fn absent_and_silent_servers_are_unhealthy() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("the listener is bound");
    // The kernel accepts the connection, but no process responds.
    let silence = ask(address, &[]);
    assert_unhealthy(&silence, &format!("{address}/healthz: timed out"));
    let closes = thread::spawn(move || drop(listener.accept()));
    assert_unhealthy(&ask(address, &[]), "/healthz: ");
    closes.join().expect("the thread does not panic");
    assert_unhealthy(&ask(address, &[]), "refused");
}

#[test]
fn other_http_servers_are_unhealthy() {
    for (body, why) in [
        ("", "/healthz: 200, but this is not Encke"),
        ("<h1>Welcome</h1>", "this is not Encke"),
        ("{\"status\":\"\u{1b}[2Jok\"}", "this is not Encke"),
        ("[\"ok\"]", "this is not Encke"),
        ("{\"status\":\"wheel_stalled\"}", "/healthz: 200 wheel_stalled"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("the listener is bound");
        let answers = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("the check connects");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).expect("a request");
                request.extend(byte);
            }
            write!(socket, "HTTP/1.1 200 OK\r\n\r\n{body}").expect("the check reads");
        });
        assert_unhealthy(&ask(address, &[]), why);
        answers.join().expect("the thread does not panic");
    }
}

#[test]
fn wrong_settings_are_named() {
    let output = run_to_end(&["healthcheck"], &[("ENCKE_LISTEN__ADMIN", "nowhere")]);
    assert_unhealthy(&output, "ENCKE_LISTEN__ADMIN");
    assert_unhealthy(&run_to_end(&["healthcheck", "--config", "/nowhere.toml"], &[]), "/nowhere.toml");
}
