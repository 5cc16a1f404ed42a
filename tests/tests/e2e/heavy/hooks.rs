use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use encke_core::session::{LifecycleEvent, Transition};
use encke_server::config::Settings;
use encke_server::events::Hooks;
use encke_server::systemd::Supervisor;
use encke_server::{Server, SessionId};
use encke_tests::waiting::{MAX_LATENESS, heavy_test_lock, let_pass, until};
use encke_tests::{Admin, Client, FakeSupervisor};
use parking_lot::Mutex;

const OTHERS: usize = 20;

/// Hooks that block on the expiry of one session until all others have expired.
#[derive(Clone, Default)]
struct BlockOnOneExpiry(Arc<ExpiryRecord>);

#[derive(Default)]
struct ExpiryRecord {
    blocked_session: Mutex<Option<String>>,
    blocked: AtomicBool,
    has_finished: AtomicBool,
    expired: AtomicUsize,
}

impl Hooks for BlockOnOneExpiry {
    fn session_event(&self, session: SessionId, _: Option<&str>, event: LifecycleEvent) {
        if event.transition != Transition::Expired {
            return;
        }
        let record = &*self.0;
        if *record.blocked_session.lock() == Some(session.to_string()) {
            record.blocked.store(true, Ordering::Release);
            // This wait would time out if it blocked the other expiries.
            until("all other sessions expire", || record.expired.load(Ordering::Acquire) == OTHERS);
            record.has_finished.store(true, Ordering::Release);
        } else {
            record.expired.fetch_add(1, Ordering::AcqRel);
        }
    }
}

fn start(settings: &[&str], hooks: impl Hooks) -> Server {
    let settings = ["listen.public=127.0.0.1:0", "listen.admin=127.0.0.1:0"].iter().chain(settings);
    let settings = Settings { flags: settings.map(|&flag| flag.to_owned()).collect(), ..Settings::default() };
    let config = settings.resolve().expect("the configuration is valid");
    Server::start(config, Box::new(hooks), Box::new(|| 0)).expect("the server starts")
}

#[test]
fn a_blocking_hook_delays_no_other_session() {
    let _lock = heavy_test_lock();
    let hooks = BlockOnOneExpiry::default();
    let server = start(&["timers.workers=2", "session.reconnect_window=1s"], hooks.clone());
    let record = &*hooks.0;
    let connect = || Client::connect(server.public_address(), "");
    let (first, others) = (connect(), (0..OTHERS).map(|_| connect()).collect::<Vec<_>>());
    *record.blocked_session.lock() = Some(first.hello.session.clone());

    first.drop_connection();
    // Wait, because one worker handles all expiries of a batch.
    until("the first session blocks its worker", || record.blocked.load(Ordering::Acquire));
    for other in others {
        // Disconnect several ticks apart, so that the other worker receives several batches.
        let_pass(Duration::from_millis(25));
        other.drop_connection();
    }
    until("the blocked hook finishes", || record.has_finished.load(Ordering::Acquire));
    let timers = Admin::new(server.admin_address()).get("/api/timers").json();
    for late_ms in [&timers["since_last_turn_ms"], &timers["lateness"]["max_ms"]] {
        assert!(late_ms.as_f64().is_some_and(|late| late < MAX_LATENESS.as_millis() as f64), "{timers}");
    }
    server.stop();
}

/// Hooks that block on every expiry until they are released.
#[derive(Clone, Default)]
struct BlockOnExpiry(Arc<AtomicBool>);

impl Hooks for BlockOnExpiry {
    fn session_event(&self, _: SessionId, _: Option<&str>, event: LifecycleEvent) {
        if event.transition == Transition::Expired {
            until("the hook is released", || self.0.load(Ordering::Acquire));
        }
    }
}

#[test]
fn a_server_whose_workers_are_stuck_is_not_healthy() {
    let released = Arc::new(AtomicBool::new(false));
    let settings = [
        "timers.workers=1",
        "timers.watchdog=1s",
        "timers.stall_threshold=500ms",
        "session.reconnect_window=100ms",
    ];
    let server = start(&settings, BlockOnExpiry(Arc::clone(&released)));
    let supervisor = FakeSupervisor::on_path();
    server.feed_watchdog(Supervisor::new(Some(supervisor.name.clone()), Some("400000")));
    assert_eq!(supervisor.next(), "WATCHDOG=1");
    let admin = Admin::new(server.admin_address());
    let age = || admin.metrics().value("encke_dispatch_age_seconds");
    assert_eq!((admin.get("/healthz").status, age()), (200, 0.0));
    Client::connect(server.public_address(), "").drop_connection();
    until("the worker is stuck", || admin.get("/healthz").status == 503);
    assert_eq!(admin.get("/healthz").json()["status"], "workers_stalled");
    assert_eq!(admin.get("/readyz").status, 503);
    assert!(age() > 1.0, "{}", age());
    assert!(admin.get("/api/timers").json()["dispatch"]["age_ms"].as_f64() > Some(1000.0));
    // Notifications sent before the stall may still be queued.
    until("all earlier notifications are read", || supervisor.try_next().is_none());
    let_pass(Duration::from_secs(1));
    assert_eq!(supervisor.try_next(), None, "no keep-alive while the worker is stuck");
    released.store(true, Ordering::Release);
    assert_eq!(supervisor.next(), "WATCHDOG=1");
    until("the worker continues", || admin.get("/healthz").status == 200);
    until("no dispatched work is pending", || age() < 1.0);
    server.stop();
}
