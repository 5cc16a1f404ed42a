use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use encke_broker::channel::{Member, MemberPhase};
use encke_core::Timestamp;
use encke_core::dialect::DialectName;
use encke_core::session::{ConnectionId, Deadline, Phase, SessionTimeouts};

use super::cell::SessionCell;
use super::mailbox::Mailbox;
use crate::auth::Identity;
use crate::session::channels::Channel;
use crate::session::id::SessionId;
use crate::session::transport::Transport;

/// State of a session as shown by the admin API.
#[derive(Debug)]
pub(crate) struct SessionView {
    pub(crate) id: SessionId,
    pub(crate) phase: Phase,
    /// Transport of the current connection, or of the last one.
    pub(crate) transport: Transport,
    pub(crate) dialect: DialectName,
    pub(crate) identity: Identity,
    /// Address of the client, unless the session is suspended.
    pub(crate) address: Option<IpAddr>,
    /// Time since the session was opened.
    pub(crate) age: Duration,
    /// Time since the client last sent something.
    pub(crate) last_received: Duration,
    /// Seq of the last message that was sent.
    pub(crate) seq: u64,
    /// Number of messages that were sent but not acknowledged.
    pub(crate) unacked: usize,
    /// Armed deadlines, with the time remaining until each.
    pub(crate) deadlines: Vec<(Deadline, Duration)>,
}

impl SessionView {
    /// Name of the phase in the admin API.
    pub(crate) fn phase_name(&self) -> &'static str {
        member_phase(self.phase).into()
    }
}

fn member_phase(phase: Phase) -> MemberPhase {
    match phase {
        // Report both as attached, because the difference is not visible to users of the API.
        Phase::Attached(_) | Phase::BetweenPolls => MemberPhase::Attached,
        Phase::Suspended | Phase::Moved => MemberPhase::Suspended,
        Phase::Closed(_) => MemberPhase::Closed,
    }
}

/// Read-only access to a session, without a step.
impl SessionCell {
    pub(crate) fn phase(&self) -> Phase {
        self.lock().machine.phase()
    }

    /// Whether the session is between polls, and its last poll arrived over this connection.
    pub(crate) fn is_between_polls(&self, mailbox: &Mailbox) -> bool {
        let state = self.lock();
        state.machine.phase() == Phase::BetweenPolls
            && state.mailbox.as_ref().is_some_and(|last| last.id == mailbox.id)
    }

    /// Returns the seq of the last message sent on the current connection. The stream continues after it.
    #[must_use]
    pub(crate) fn sent(&self) -> u64 {
        self.lock().machine.outbox().sent()
    }

    /// Whether a request is being held until there are messages, and its hold time has not elapsed.
    #[must_use]
    pub(crate) fn is_holding(&self) -> bool {
        self.lock().machine.is_holding()
    }

    /// Returns the identity of the session's client.
    #[must_use]
    pub(crate) fn identity(&self) -> Identity {
        self.lock().identity.clone()
    }

    /// Returns the dialect of the session's latest connection.
    #[must_use]
    pub(crate) fn dialect(&self) -> DialectName {
        self.lock().dialect
    }

    /// Returns the highest seq ever assigned, on any connection.
    #[must_use]
    pub(crate) fn seq(&self) -> u64 {
        self.lock().machine.outbox().seq()
    }

    /// Whether a message with this seq may have been sent, by this server or by one that has failed.
    #[must_use]
    pub(crate) fn may_have_sent(&self, seq: u64) -> bool {
        let state = self.lock();
        seq <= state.machine.outbox().seq() || state.shared().is_some_and(|shared| shared.is_outdated)
    }

    /// Returns the session as a member of a channel, if the session is subscribed and its join is not held
    /// back. Called for many sessions at a time.
    ///
    /// This checks the session's own subscriptions, because the session may still be among the channel's
    /// subscribers when its leave is published.
    pub(crate) fn member(&self, channel: &Channel) -> Option<Member> {
        let (user, phase) = {
            let state = self.lock();
            let (_, subscription) = state.find(channel.name().as_str())?;
            subscription.channel.is_listed(subscription.key).then_some(())?;
            (state.identity.shared_user(), member_phase(state.machine.phase()))
        };
        let user = user.map(|user| String::from(&*user));
        Some(Member { id: self.id().to_string(), user, phase })
    }

    /// Returns the subscribed channels, with the offset up to which each has been read.
    #[must_use]
    pub(crate) fn subscriptions(&self) -> Vec<(Arc<Channel>, u64)> {
        let state = self.lock();
        let subscriptions = state.machine.outbox().subscriptions();
        subscriptions.map(|view| (Arc::clone(&view.channel.channel), view.cursor)).collect()
    }

    /// Whether there is something to send now, and whether sending has stopped until the client acknowledges
    /// something.
    #[cfg(feature = "simulation")]
    pub(crate) fn outgoing(&self) -> (bool, bool) {
        let state = self.lock();
        let outbox = state.machine.outbox();
        (outbox.next_turn().is_some(), outbox.is_stopped())
    }

    /// Returns all armed deadlines.
    #[cfg(feature = "simulation")]
    pub(crate) fn deadlines(&self, timeouts: &SessionTimeouts) -> Vec<(Deadline, Timestamp)> {
        self.lock().machine.deadlines(timeouts).map(|(at, deadline)| (deadline, at)).collect()
    }

    /// Returns the state of the session at `now`.
    #[must_use]
    pub(crate) fn view(&self, now: Timestamp, timeouts: &SessionTimeouts) -> SessionView {
        let state = self.lock();
        let machine = &state.machine;
        let last_received = machine.last_received_at();
        let last_received =
            state.mailbox.as_ref().map_or(last_received, |mailbox| mailbox.received_at().max(last_received));
        SessionView {
            id: self.id(),
            phase: machine.phase(),
            transport: state.transport,
            dialect: state.dialect,
            identity: state.identity.clone(),
            address: state.address(),
            age: now.since(machine.opened_at()),
            last_received: now.since(last_received),
            seq: machine.outbox().seq(),
            unacked: machine.outbox().unacked(),
            deadlines: machine.deadlines(timeouts).map(|(at, deadline)| (deadline, at.since(now))).collect(),
        }
    }
}

/// Record of the polling advice that the client has received.
impl SessionCell {
    /// Records that the client received the full polling advice. Returns whether this is the first time.
    pub(crate) fn mark_advised(&self) -> bool {
        !std::mem::replace(&mut self.lock().poll_advice.all, true)
    }

    /// Whether the client received the full polling advice.
    pub(crate) fn is_advised(&self) -> bool {
        self.lock().poll_advice.all
    }

    /// Records that the client is advised to pause before its next poll, or may not have received the advice that ends
    /// the pause.
    pub(crate) fn note_pause(&self) {
        self.lock().poll_advice.pause = true;
    }

    /// Records that an answer on this connection ends the pause. Returns whether there is a pause to end. An answer on a
    /// connection that the client has replaced ends none.
    pub(crate) fn end_pause(&self, connection: ConnectionId) -> bool {
        let mut state = self.lock();
        state.machine.is_latest_connection(connection) && std::mem::take(&mut state.poll_advice.pause)
    }
}
