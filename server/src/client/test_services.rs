//! Test helpers: services on a slow engine, and sessions on these services.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::NoTasks;
use encke_broker::engine::LogEngine;
use encke_core::dialect::DialectName;
use encke_core::session::{ConnectionKind, Heartbeat};
use encke_timeouts::Timeouts;
use encke_timeouts::clock::Clock;

use super::Services;
use crate::auth::Identity;
use crate::client::slow_engine::{SlowControl, SlowEngine};
use crate::config::Settings;
use crate::events::{HookSink, NoHooks};
use crate::server::assembly;
use crate::session::{Arrival, AttachRequest, Attached, SessionRequest};

/// Address of all clients in the tests.
pub(crate) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Creates services on a slow engine, and the controls of that engine.
pub(crate) fn on_slow_engine() -> (Services, Arc<SlowControl>) {
    on_slow_engine_with(Clock::new)
}

/// Like [`on_slow_engine`], but with the clock that `clock` creates, given the stall threshold.
pub(crate) fn on_slow_engine_with(clock: impl FnOnce(Duration) -> Clock) -> (Services, Arc<SlowControl>) {
    let config = Settings::default().resolve().expect("the defaults are valid");
    let clock = Arc::new(clock(config.timers.stall_threshold));
    let (timeouts, _) = Timeouts::new(clock, Duration::ZERO, config.limits.session_slots());
    let events = Box::new(HookSink(Box::new(NoHooks)));
    let control = Arc::new(SlowControl::default());
    let engine =
        |memory| -> Arc<dyn LogEngine<_>> { Arc::new(SlowEngine { memory, control: Arc::clone(&control) }) };
    let services =
        assembly::client_services_on(&config, timeouts, Entropy::system(), Arc::new(NoTasks), events, engine);
    (services, control)
}

/// Attaches a connection to a new session, or to the session of this resume token.
pub(crate) fn attach(services: &Services, resume: Option<String>) -> Attached {
    attach_after(services, resume, None)
}

/// Like [`attach`], but for a client that reports the last message it has received.
pub(crate) fn attach_after(services: &Services, resume: Option<String>, seq: Option<u64>) -> Attached {
    let request = AttachRequest {
        wanted: SessionRequest {
            resume,
            seq,
            ..SessionRequest::new(ConnectionKind::Stream(Heartbeat::Frame), DialectName::Json)
        },
        identity: Identity::ANONYMOUS,
        address: ADDRESS,
        arrival: Arrival::default(),
        has_session: false,
        can_open: true,
    };
    let permit = services.limits.permits.take(ADDRESS);
    services.sessions.attach(&request, permit, || false).expect("a session")
}
