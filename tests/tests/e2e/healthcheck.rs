use std::net::SocketAddr;
use std::thread;

use encke_tests::port::listen;
use encke_tests::process::ProcessOutput;
use encke_tests::server::run_to_end;
use encke_tests::{Certificate, Launch, RawClient, RunningServer};

fn ask(admin: SocketAddr, arguments: &[&str]) -> ProcessOutput {
    run_to_end(&[&["healthcheck"], arguments].concat(), &[("ENCKE_LISTEN__ADMIN", &admin.to_string())])
}

#[track_caller]
fn assert_healthy(output: &ProcessOutput) {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_str(&output.stdout).expect("an answer in JSON");
    assert_eq!(answer["status"], "ok");
}

/// Exit status of a check that fails. Container engines reserve 2.
const UNHEALTHY: i32 = 1;

/// The check reaches a server that listens on all addresses over loopback.
#[test]
fn healthy_server_is_not_ready_while_it_drains() {
    let server = Launch::listening_on_both("127.0.0.1:0", "0.0.0.0:0")
        .set("auth.api_keys=[\"0123456789abcdef\"]")
        .set("shutdown.drain=60s")
        .set("session.close_timeout=60s")
        .start();
    assert_healthy(&ask(server.admin.address(), &[]));
    assert_healthy(&ask(server.admin.address(), &["--ready"]));
    let address = server.admin.address().to_string();
    assert_healthy(&run_to_end(&["healthcheck", "--admin", &address], &[]));
    assert_healthy(&run_to_end(&["healthcheck", "--set", &format!("listen.admin={address}")], &[]));

    // This client reads its goaway but keeps the connection open, so the drain continues.
    let (mut stays, _) = RawClient::greeted(server.public, "");
    server.terminate();
    stays.object();
    ask(server.admin.address(), &["--ready"]).assert_failed(UNHEALTHY, &["/readyz: 503"]);
    assert_healthy(&ask(server.admin.address(), &[]));
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
    ask(server.admin.address(), &[]).assert_failed(UNHEALTHY, &["/healthz: "]);
    // The check does not need the key: the user that runs it may not be allowed to read the key, and the key
    // on disk may be a new one that is invalid.
    std::fs::remove_file(&key).expect("the key exists");
    assert_healthy(&ask(server.admin.address(), &with_settings));
}

#[test]
fn absent_and_silent_servers_are_unhealthy() {
    let (listener, address) = listen();
    // The kernel accepts the connection, but no process responds.
    ask(address, &[]).assert_failed(UNHEALTHY, &[&format!("{address}/healthz: timed out")]);
    let closes = thread::spawn(move || drop(listener.accept()));
    ask(address, &[]).assert_failed(UNHEALTHY, &["/healthz: "]);
    closes.join().expect("the thread does not panic");
    ask(address, &[]).assert_failed(UNHEALTHY, &["refused"]);
}

#[test]
fn wrong_settings_are_named() {
    let output = run_to_end(&["healthcheck"], &[("ENCKE_LISTEN__ADMIN", "nowhere")]);
    output.assert_failed(UNHEALTHY, &["ENCKE_LISTEN__ADMIN"]);
    run_to_end(&["healthcheck", "--config", "/nowhere.toml"], &[])
        .assert_failed(UNHEALTHY, &["/nowhere.toml"]);
}
