//! What tests of commands share: a context on a slow engine, and the sessions in it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use encke_core::dialect::DialectName;
use encke_core::session::{ConnectionKind, Delivery, Heartbeat};

use super::Context;
use crate::auth::Identity;
use crate::clock::Clock;
use crate::config::Settings;
use crate::context;
use crate::engine::LogEngine;
use crate::engine::slow::{Held, SlowEngine};
use crate::entropy::Entropy;
use crate::events::{HookSink, NoHooks};
use crate::executor::NoTasks;
use crate::session::{AttachRequest, Attached};
use crate::timeouts::Timeouts;

/// Where all clients come from.
pub(crate) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A context, and what its engine is told by.
pub(crate) fn on_slow_engine() -> (Context, Arc<Held>) {
    let config = Settings::default().resolve().expect("the defaults are valid");
    let clock = Arc::new(Clock::new(config.timers.stall_threshold));
    let (timeouts, _) = Timeouts::new(clock, Duration::ZERO, config.limits.slots());
    let events = Box::new(HookSink(Box::new(NoHooks)));
    let held = Arc::new(Held::default());
    let engine =
        |memory| -> Arc<dyn LogEngine<_>> { Arc::new(SlowEngine { memory, held: Arc::clone(&held) }) };
    let context = context::client_on(&config, timeouts, Entropy::system(), Arc::new(NoTasks), events, engine);
    (context, held)
}

/// A connection's session: a new one, or the one of this resume token.
pub(crate) fn attach(context: &Context, resume: Option<String>) -> Attached {
    attach_after(context, resume, None)
}

/// The same for a client that says what it has.
pub(crate) fn attach_after(context: &Context, resume: Option<String>, seq: Option<u64>) -> Attached {
    let request = AttachRequest {
        resume,
        seq,
        identity: Identity::ANONYMOUS,
        address: ADDRESS,
        kind: ConnectionKind::Stream(Heartbeat::Frame),
        dialect: DialectName::Json,
        delivery: Delivery::AtLeastOnce,
        may_open: true,
        only_resume: false,
    };
    let permit = context.permits.take(ADDRESS);
    context.sessions.attach(&request, permit, || false).expect("a session")
}
