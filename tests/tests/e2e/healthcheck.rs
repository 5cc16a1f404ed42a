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
fn assert_yes(output: &Output) {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an answer in JSON");
    assert_eq!(answer["status"], "ok");
}

/// By 1: container engines keep 2 for themselves.
#[track_caller]
fn assert_no(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_server_that_is_well() {
    let server = RunningServer::with(&["auth.api_keys=[\"0123456789abcdef\"]"]);
    assert_yes(&ask(server.admin.address(), &[]));
    assert_yes(&ask(server.admin.address(), &["--ready"]));
    let address = server.admin.address().to_string();
    assert_yes(&run_to_end(&["healthcheck", "--admin", &address], &[]));
    assert_yes(&run_to_end(&["healthcheck", "--set", &format!("listen.admin={address}")], &[]));
}

#[test]
fn a_server_on_all_addresses_is_asked_by_loopback() {
    let server = Launch::listening_on_both("127.0.0.1:0", "0.0.0.0:0").argument("--insecure").start();
    assert_yes(&ask((Ipv4Addr::UNSPECIFIED, server.admin.address().port()).into(), &[]));
}

#[test]
fn a_server_with_a_certificate_for_other_names() {
    let folder = tempfile::tempdir().expect("there is room for files");
    let (certificate, key) = Certificate::generate().write(folder.path());
    let settings = [
        "tls.admin=true".to_owned(),
        format!("tls.certificate={}", certificate.display()),
        format!("tls.key={}", key.display()),
    ];
    let server = RunningServer::with(&settings.each_ref().map(String::as_str));
    let with_settings = settings.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
    assert_yes(&ask(server.admin.address(), &with_settings));
    assert_no(&ask(server.admin.address(), &[]), "/healthz: ");
    // Whoever asks may not read the key, and the next one may be bad already.
    std::fs::remove_file(&key).expect("it is there");
    assert_yes(&ask(server.admin.address(), &with_settings));
}

#[test]
fn a_server_that_drains_is_well_and_not_ready() {
    let server = RunningServer::with(&["shutdown.drain=60s", "session.close_timeout=60s"]);
    // It reads its goaway and stays, so the drain goes on.
    let (mut stays, _) = RawClient::greeted(server.public, "");
    server.terminate();
    stays.object();
    assert_no(&ask(server.admin.address(), &["--ready"]), "/readyz: 503");
    assert_yes(&ask(server.admin.address(), &[]));
}

#[test]
fn a_server_that_is_not_there_and_one_that_says_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    // The system accepts, and nobody answers.
    let silence = ask(address, &[]);
    assert_no(&silence, &format!("{address}/healthz: timed out"));
    let closes = thread::spawn(move || drop(listener.accept()));
    assert_no(&ask(address, &[]), "/healthz: ");
    closes.join().expect("it does not panic");
    assert_no(&ask(address, &[]), "refused");
}

#[test]
fn what_else_answers_there_is_no_server_that_is_well() {
    for (body, why) in [
        ("", "/healthz: 200, but this is not Encke"),
        ("<h1>Welcome</h1>", "this is not Encke"),
        ("{\"status\":\"\u{1b}[2Jok\"}", "this is not Encke"),
        ("[\"ok\"]", "this is not Encke"),
        ("{\"status\":\"wheel_stalled\"}", "/healthz: 200 wheel_stalled"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let answers = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("it is asked");
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).expect("a request");
                asked.extend(byte);
            }
            write!(socket, "HTTP/1.1 200 OK\r\n\r\n{body}").expect("it listens");
        });
        assert_no(&ask(address, &[]), why);
        answers.join().expect("it does not panic");
    }
}

#[test]
fn wrong_settings_are_named() {
    let output = run_to_end(&["healthcheck"], &[("ENCKE_LISTEN__ADMIN", "nowhere")]);
    assert_no(&output, "ENCKE_LISTEN__ADMIN");
    assert_no(&run_to_end(&["healthcheck", "--config", "/nowhere.toml"], &[]), "/nowhere.toml");
}
