use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::session::{Deadline, Outputs, Phase, Session, SessionTimeouts};
use encke_timeouts::{ArmAction, RequestedDeadline};

use crate::session::channels::SubscribedChannel;
use crate::session::table::{Mailbox, SessionCell, SessionState, Unparked};

/// A step in progress, and what remains to be done when the session's lock is released.
pub(super) struct Step<'a> {
    pub(super) session: &'a SessionCell,
    pub(super) now: Timestamp,
    /// Phase before the step.
    pub(super) before: Phase,
    /// Mailbox that the outputs are posted to: that of the connection before the step.
    pub(super) mailbox: Option<Arc<Mailbox>>,
    pub(super) outputs: Outputs,
    pub(super) unparked: Option<Unparked>,
    pub(super) arming: Option<ArmAction>,
    /// Subscriptions of a session that has ended. Boxed because few steps need them but every step has room
    /// for them.
    pub(super) subscriptions: Option<Box<[SubscribedChannel]>>,
    /// Whether the end of the session is reported once the directory has confirmed it.
    pub(super) reports_end_later: bool,
}

impl<'a> Step<'a> {
    #[inline]
    pub(super) fn begin(session: &'a SessionCell, state: &SessionState, now: Timestamp) -> Self {
        Self {
            session,
            now,
            before: state.machine.phase(),
            mailbox: state.mailbox.clone(),
            outputs: Outputs::new(),
            unparked: None,
            arming: None,
            subscriptions: None,
            reports_end_later: false,
        }
    }
}

/// Returns the deadline to request from the wheel. Pings have slack, so that they can be sent in batches. All
/// other deadlines are exact to the tick, and so is a ping if another deadline lies within its slack.
/// `offline_at` is the deadline in [`OnlineUsers`](super::online_users::OnlineUsers) of a suspended session.
pub(super) fn requested_deadline<C>(
    machine: &Session<C>,
    now: Timestamp,
    offline_at: Option<Timestamp>,
    slack: Duration,
    timeouts: &SessionTimeouts,
) -> RequestedDeadline {
    let next = machine.next_deadline(timeouts);
    if machine.is_writing_ping() {
        // Pong is about to be armed. Requesting it now saves the wheel one insertion per ping, and expiring
        // early has no effect.
        let pong = now + timeouts.pong_timeout;
        return RequestedDeadline::exact(next.map_or(pong, |(at, _)| at.min(pong)).as_nanos());
    }
    if let Some(offline_at) = offline_at {
        let at = next.map_or(offline_at, |(at, _)| at.min(offline_at));
        return RequestedDeadline::exact(at.as_nanos());
    }
    let Some((at, deadline)) = next else { return RequestedDeadline::NONE };
    let is_soft = deadline == Deadline::Ping && machine.has_only_heartbeat(timeouts, at + slack);
    if is_soft { RequestedDeadline::soft(at.as_nanos()) } else { RequestedDeadline::exact(at.as_nanos()) }
}
