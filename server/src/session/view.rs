use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::dialect::DialectName;
use encke_core::session::{Deadline, Phase, SessionTimeouts};

use super::Channel;
use super::cell::{SessionCell, Transport};
use super::id::SessionId;
use crate::auth::Identity;
use crate::channel::{Member, MemberPhase};

/// What others may see of a session.
#[derive(Debug)]
pub(crate) struct SessionView {
    pub(crate) id: SessionId,
    /// Where it is in its life.
    pub(crate) phase: Phase,
    /// How it is, or was last, connected.
    pub(crate) transport: Transport,
    pub(crate) dialect: DialectName,
    /// Who its client is.
    pub(crate) identity: Identity,
    /// How long ago it began.
    pub(crate) age: Duration,
    /// How long ago its client last sent something.
    pub(crate) last_received: Duration,
    /// The number of the last message sent.
    pub(crate) seq: u64,
    /// Messages that were sent and are not acknowledged.
    pub(crate) unacked: usize,
    /// Every armed deadline, and what remains until it.
    pub(crate) deadlines: Vec<(Deadline, Duration)>,
}

impl SessionView {
    /// The phase's name in the admin API.
    pub(crate) fn phase_name(&self) -> &'static str {
        as_others_see(self.phase).into()
    }
}

fn as_others_see(phase: Phase) -> MemberPhase {
    match phase {
        // They see no difference.
        Phase::Attached(_) | Phase::BetweenPolls => MemberPhase::Attached,
        Phase::Suspended | Phase::Moved => MemberPhase::Suspended,
        Phase::Closed(_) => MemberPhase::Closed,
    }
}

/// What can be read of a session without a step: none of it changes anything.
impl SessionCell {
    /// The number of the last message sent on its connection; the stream goes on after it.
    #[must_use]
    pub(crate) fn sent(&self) -> u64 {
        self.lock().machine.outbox().sent()
    }

    /// Who its client is.
    #[must_use]
    pub(crate) fn identity(&self) -> Identity {
        self.lock().identity.clone()
    }

    /// The last number that anything was sent under, on whichever connection.
    #[must_use]
    pub(crate) fn seq(&self) -> u64 {
        self.lock().machine.outbox().seq()
    }

    /// What others on a channel see of it, if it follows that. Many are asked for at a time.
    ///
    /// It is asked itself: when it is told that it has left, it may still be among the channel's subscribers.
    pub(super) fn member(&self, channel: &Channel) -> Option<Member> {
        let (user, phase) = {
            let state = self.lock();
            state.find(channel.name().as_str())?;
            (state.identity.shared_user(), as_others_see(state.machine.phase()))
        };
        let user = user.map(|user| String::from(&*user));
        Some(Member { id: self.id().to_string(), user, phase })
    }

    /// The channels it follows, and how far it has read each.
    #[must_use]
    pub(crate) fn subscriptions(&self) -> Vec<(Arc<Channel>, u64)> {
        let state = self.lock();
        let subscriptions = state.machine.outbox().subscriptions();
        subscriptions.map(|view| (Arc::clone(&view.channel.channel), view.cursor)).collect()
    }

    /// Whether there is something to send now, and whether sending has stopped until something is acknowledged.
    #[cfg(feature = "simulation")]
    pub(crate) fn outgoing(&self) -> (bool, bool) {
        let state = self.lock();
        let outbox = state.machine.outbox();
        (outbox.next_turn().is_some(), outbox.is_stopped())
    }

    /// Every armed deadline.
    #[cfg(feature = "simulation")]
    pub(crate) fn deadlines(&self, timeouts: &SessionTimeouts) -> Vec<(Deadline, Timestamp)> {
        self.lock().machine.deadlines(timeouts).map(|(at, deadline)| (deadline, at)).collect()
    }

    /// What can be seen of it at `now`.
    #[must_use]
    pub(crate) fn view(&self, now: Timestamp, timeouts: &SessionTimeouts) -> SessionView {
        let state = self.lock();
        let machine = &state.machine;
        let last_received = machine.last_received_at();
        let last_received =
            state.link.as_ref().map_or(last_received, |link| link.received_at().max(last_received));
        SessionView {
            id: self.id(),
            phase: machine.phase(),
            transport: state.transport,
            dialect: state.dialect,
            identity: state.identity.clone(),
            age: now.since(machine.opened_at()),
            last_received: now.since(last_received),
            seq: machine.outbox().seq(),
            unacked: machine.outbox().unacked(),
            deadlines: machine.deadlines(timeouts).map(|(at, deadline)| (deadline, at.since(now))).collect(),
        }
    }
}
