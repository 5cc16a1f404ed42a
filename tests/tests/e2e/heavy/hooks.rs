use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use encke_core::session::{LifecycleEvent, Transition};
use encke_server::config::Settings;
use encke_server::events::Hooks;
use encke_server::systemd::Supervisor;
use encke_server::{Server, SessionId};
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{MAX_LATENESS, heavy_test_lock, let_pass, until};
use encke_tests::{Admin, Client, FakeSupervisor};
use parking_lot::Mutex;

const WINDOW: Duration = Duration::from_secs(1);
const OTHERS: usize = 20;

/// Hooks that block on the expiry of one session and record when the other sessions expire.
#[derive(Clone, Default)]
struct BlockOnOneExpiry(Arc<ExpiryRecord>);

#[derive(Default)]
struct ExpiryRecord {
    blocked_session: Mutex<Option<String>>,
    blocked: AtomicBool,
    has_finished: AtomicBool,
    expired: Mutex<Vec<(String, Instant)>>,
}

impl Hooks for BlockOnOneExpiry {
    fn session_event(&self, session: SessionId, _: Option<&str>, event: LifecycleEvent) {
        if event.transition != Transition::Expired {
            return;
        }
        let ExpiryRecord { blocked_session: blocks_on, blocked, has_finished: over, expired } = &*self.0;
        let id = session.to_string();
        if blocks_on.lock().as_ref() == Some(&id) {
            blocked.store(true, Ordering::Release);
            // This wait would time out if it blocked the other expiries.
            until("all other sessions expire", || expired.lock().len() == OTHERS);
            over.store(true, Ordering::Release);
        } else {
            expired.lock().push((id, Instant::now()));
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
    let mut left = Vec::new();
    for other in others {
        // Disconnect several ticks apart, so that the workers receive each expiry in a separate batch, all
        // while the first hook blocks.
        let_pass(Duration::from_millis(25));
        let at = Instant::now();
        left.push((other.drop_connection().session, at));
    }
    until("the first session blocks its worker", || record.blocked.load(Ordering::Acquire));
    until("all other sessions expire", || record.expired.lock().len() == OTHERS);
    let timers = Admin::new(server.admin_address()).get("/api/timers").json();
    let since_last_turn = timers["since_last_turn_ms"].as_f64().expect("a number");
    assert!(since_last_turn < MAX_LATENESS.as_millis() as f64, "{timers}");
    assert!(
        timers["lateness"]["max_ms"].as_f64().is_some_and(|late| late < MAX_LATENESS.as_millis() as f64),
        "{timers}"
    );

    let expired = record.expired.lock().clone();
    for (session, at) in &left {
        let (_, then) = expired.iter().find(|(id, _)| id == session).expect("every session expires");
        let after = *then - *at;
        assert!(after >= WINDOW, "early: {after:?}");
        assert!(after < WINDOW + MAX_LATENESS, "late: {after:?}");
    }
    until("the blocked hook finishes", || record.has_finished.load(Ordering::Acquire));
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

/// Hooks that record the user of each session that is opened.
#[derive(Clone, Default)]
struct UserRecorder(Arc<Mutex<Vec<Option<String>>>>);

impl Hooks for UserRecorder {
    fn session_event(&self, _: SessionId, user: Option<&str>, event: LifecycleEvent) {
        if event.transition == Transition::Opened {
            self.0.lock().push(user.map(ToOwned::to_owned));
        }
    }
}

#[test]
fn a_hook_receives_the_user() {
    let users = UserRecorder::default();
    let secret = format!("auth.secret={SECRET}");
    let server = start(&[&secret], users.clone());
    let claims = serde_json::json!({"sub": "alice", "channels": {}});
    let token = sign(&claims, SECRET);
    let client = Client::connect(server.public_address(), &format!("token={token}"));
    until("the hook is called", || *users.0.lock() == [Some("alice".to_owned())]);
    drop(client);
    server.stop();
}
