use std::time::Duration;

use encke_tests::process::Signal;
use encke_tests::{Certificate, FakeSupervisor, Launch};
use encke_timeouts::clock::monotonic_now;

const READY: &str = "READY=1";
const KEEP_ALIVE: &str = "WATCHDOG=1";

/// Asserts that the start of a reload is announced with a time between `from` and now, and that its end is
/// announced, too.
#[track_caller]
fn assert_reload(supervisor: &FakeSupervisor, from: Duration) {
    let reloading = supervisor.next();
    let at =
        reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("the format that systemd requires");
    let at = Duration::from_micros(at.parse().expect("a number"));
    assert!(at + Duration::from_micros(1) >= from && at <= monotonic_now(), "{at:?}, not after {from:?}");
    assert_eq!(supervisor.next(), READY);
}

#[test]
fn readiness_reloads_and_shutdown_are_notified() {
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
        assert_eq!(server.await_exit().code(), Some(0));
        assert_eq!(supervisor.try_next(), None, "no watchdog was configured");
    }
}

#[test]
fn a_reload_ends_once_the_certificate_is_read() {
    let supervisor = FakeSupervisor::on_path();
    let directory = tempfile::tempdir().expect("a temporary directory can be created");
    let launch = Launch::default().with_certificate(&Certificate::generate(), directory.path());
    let server = launch.environment("NOTIFY_SOCKET", &supervisor.name).start();
    assert_eq!(supervisor.next(), READY);
    let from = monotonic_now();
    server.signal(Signal::HUP);
    assert_reload(&supervisor, from);
    server.logs.await_line("certificate reloaded");
}

#[test]
fn keep_alives_are_sent_and_a_missing_supervisor_does_no_harm() {
    let supervisor = FakeSupervisor::on_path();
    let server = Launch::default()
        .environment("NOTIFY_SOCKET", &supervisor.name)
        .environment("WATCHDOG_USEC", "200000")
        .start();
    let notifications: Vec<_> = (0..6).map(|_| supervisor.next()).collect();
    assert_eq!(notifications.iter().filter(|it| **it == READY).count(), 1, "{notifications:?}");
    assert_eq!(notifications.iter().filter(|it| **it == KEEP_ALIVE).count(), 5, "{notifications:?}");
    drop(supervisor);
    server.logs.await_line("cannot send a keep-alive to the supervisor's watchdog (NOTIFY_SOCKET)");
    server.signal(Signal::HUP);
    server.logs.await_line("no certificate to reload");
    server.assert_healthy();
}
