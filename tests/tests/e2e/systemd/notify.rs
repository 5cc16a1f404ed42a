use std::time::Duration;

use encke_server::clock::monotonic_now;
use encke_tests::process::Signal;
use encke_tests::waiting::TIMEOUT;
use encke_tests::{Certificate, Client, FakeSupervisor, Launch};

const READY: &str = "READY=1";
const ALIVE: &str = "WATCHDOG=1";

/// Asserts that a reload is announced, with a time that has come since `from`, and that its end is told.
#[track_caller]
fn assert_reload(supervisor: &FakeSupervisor, from: Duration) {
    let reloading = supervisor.next();
    let at = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("what systemd asks for");
    let at = Duration::from_micros(at.parse().expect("a number"));
    assert!(at + Duration::from_micros(1) >= from && at <= monotonic_now(), "{at:?}, not after {from:?}");
    assert_eq!(supervisor.next(), READY);
}

#[test]
fn readiness_reloads_and_the_end_are_told() {
    for supervisor in [FakeSupervisor::on_path(), FakeSupervisor::on_abstract_name()] {
        let starting = Launch::default().environment("NOTIFY_SOCKET", &supervisor.name).spawn();
        assert_eq!(supervisor.next(), READY);
        let mut server = starting.await_banner();
        let mut client = server.client();
        let from = monotonic_now();
        server.signal(Signal::HUP);
        assert_reload(&supervisor, from);
        server.terminate();
        assert_eq!(supervisor.next(), "STOPPING=1");
        assert_eq!(client.close_code(), Some(4002));
        assert_eq!(server.await_exit(TIMEOUT).code(), Some(0));
        assert_eq!(supervisor.try_next(), None, "no watchdog was asked for");
    }
}

#[test]
fn the_end_of_a_reload_is_told_when_the_certificate_was_read() {
    let supervisor = FakeSupervisor::on_path();
    let directory = tempfile::tempdir().expect("a folder");
    let (certificate, key) = Certificate::generate().write(directory.path());
    let settings =
        [format!("tls.certificate={}", certificate.display()), format!("tls.key={}", key.display())];
    let launch = settings.iter().fold(Launch::default(), |launch, setting| launch.set(setting));
    let server = launch.environment("NOTIFY_SOCKET", &supervisor.name).start();
    assert_eq!(supervisor.next(), READY);
    let from = monotonic_now();
    server.signal(Signal::HUP);
    assert_reload(&supervisor, from);
    server.logs.await_line("certificate reloaded");
}

#[test]
fn the_watchdog_hears_of_a_server_that_is_well() {
    let supervisor = FakeSupervisor::on_path();
    let server = Launch::default()
        .environment("NOTIFY_SOCKET", &supervisor.name)
        .environment("WATCHDOG_USEC", "400000")
        .start();
    let said: Vec<_> = (0..6).map(|_| supervisor.next()).collect();
    assert_eq!(said.iter().filter(|said| **said == READY).count(), 1, "{said:?}");
    assert_eq!(said.iter().filter(|said| **said == ALIVE).count(), 5, "{said:?}");
    server.assert_healthy();
}

#[test]
fn a_supervisor_that_is_gone_harms_nobody() {
    let supervisor = FakeSupervisor::on_path();
    let server = Launch::default()
        .environment("NOTIFY_SOCKET", &supervisor.name)
        .environment("WATCHDOG_USEC", "200000")
        .start();
    assert!([READY, ALIVE].contains(&&*supervisor.next()));
    drop(supervisor);
    server.logs.await_line("watchdog (NOTIFY_SOCKET) cannot be told");
    server.signal(Signal::HUP);
    server.logs.await_line("nothing to reload");
    server.assert_healthy();
    assert!(!Client::connect(server.public, "").hello.recovered);
}
