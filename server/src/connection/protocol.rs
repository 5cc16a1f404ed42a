use std::task::{Context, Poll};

use encke_broker::channel::ChannelName;
use encke_core::Timestamp;
use encke_core::close::{CloseCode, SuspendReason};
use encke_core::dialect::{DialectName, StartPosition};
use encke_core::frame::Fragments;
use encke_core::session::ConnectionInput;

use super::pending_subscriptions::RefusedChannel;
use super::pending_write::PendingWrite;
use crate::client::{Attachment, Services};
use crate::session::{Backlog, DeliveryBatch, SessionCell, SessionOutbox, SubscribeOutcome, Transport};

/// How a transport interprets input and writes output. It performs no I/O and never waits.
pub(crate) trait Protocol<S>: Send + Sized + 'static {
    /// Commands that wait for an engine or the backend. A connection with such commands is not parked.
    type Commands: Default + Send;

    const TRANSPORT: Transport;

    /// Maximum number of pieces of input handled at a time, before other tasks run.
    const INPUTS_PER_POLL: u16 = 16;

    /// Maximum number of bytes of input kept until they can be handled.
    const MAX_UNHANDLED_BYTES: usize = usize::MAX;

    /// Whether the kernel's acknowledgement of a ping counts as the answer, because the client cannot answer.
    const PINGS_ARE_ACKNOWLEDGED: bool = false;

    /// How a connection ends if its client does not read.
    const TOO_SLOW: Ending = Ending::Lost;

    fn dialect(&self) -> DialectName;

    /// Returns the time from which the rate limit admits more input.
    fn next_input_at(&self, _session: &SessionCell) -> Timestamp {
        Timestamp::from_nanos(0)
    }

    /// Whether input can be handled now. If not, it is not read either.
    fn can_receive(_commands: &Self::Commands) -> bool {
        true
    }

    /// Handles the beginning of the input.
    fn receive(
        &mut self,
        bytes: &mut [u8],
        fragments: &mut Fragments,
        link: &mut Link<'_, Self::Commands>,
    ) -> Handled;

    /// Returns the input for the state machine if `bytes` contain the answer to a ping and nothing else.
    fn ping_answer(&self, _bytes: &[u8]) -> Option<ConnectionInput> {
        None
    }

    /// Continues the pending commands. `None` if there are none.
    fn poll_commands(
        &mut self,
        _task: &mut Context<'_>,
        _link: &mut Link<'_, Self::Commands>,
    ) -> Option<Poll<()>> {
        None
    }

    /// Whether any command is pending.
    fn has_pending(_commands: &Self::Commands) -> bool {
        false
    }

    /// Records that a channel that the request asked for was subscribed to.
    fn subscribed(
        &mut self,
        _requested: &ChannelName,
        _outcome: &SubscribeOutcome,
        _begin: StartPosition<'static>,
    ) {
    }

    /// Greets the client, once the channels that its request asked for are subscribed to or `refused`.
    fn greet(&mut self, _refused: &[RefusedChannel], _recovered: bool, _link: &mut Link<'_, Self::Commands>) {
    }

    /// Writes a ping and returns its seq. `sent` is the last seq sent to the client.
    fn write_ping(&mut self, sent: u64, out: &mut Vec<u8>) -> u64;

    /// Whether messages can be sent now. If not, they wait until the client asks for them.
    fn can_send(&self) -> bool {
        true
    }

    /// Whether messages can be sent while the connection is parked. If not, they unpark it.
    fn can_send_while_parked(&self) -> bool {
        true
    }

    /// Whether input should be handled before messages are sent.
    fn receives_first(&self) -> bool {
        false
    }

    /// Takes a batch of messages from the outbox.
    fn take_batch(
        &mut self,
        services: &Services,
        session: &SessionCell,
        outbox: &mut SessionOutbox,
        out: &mut Vec<u8>,
    ) -> DeliveryBatch;

    /// Whether there is something to answer the client's held request with.
    fn has_answer(&self) -> bool {
        false
    }

    /// Answers the client's held request, if there is one.
    fn answer(&mut self, _link: &mut Link<'_, Self::Commands>) {}

    /// Called when another poll of the session has arrived.
    fn superseded(&mut self, _link: &mut Link<'_, Self::Commands>) {}

    /// Called when the kernel has accepted all output.
    ///
    /// # Errors
    /// Returns how the connection ends, if this was its last output.
    fn written(&mut self, _link: &mut Link<'_, Self::Commands>) -> Result<(), Ending> {
        Ok(())
    }

    /// Called when the session has released the connection.
    ///
    /// # Errors
    /// Returns how the connection ends, unless a last response must be sent first.
    fn released(&mut self, code: CloseCode, _link: &mut Link<'_, Self::Commands>) -> Result<(), Ending> {
        Err(Ending::Close(code))
    }

    /// Answers the message with which the peer has closed the connection, as the last output.
    fn write_close_reply(_code: Option<u16>, _out: &mut Vec<u8>) {}

    /// Writes why the server closes the connection, and when to reconnect.
    fn write_farewell(code: CloseCode, services: &Services, out: &mut Vec<u8>);
}

/// Result of handling input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handled {
    /// Number of bytes that were handled; 0 if more must arrive first.
    pub(crate) bytes: usize,
    /// Why and how the connection ends, if it does.
    pub(crate) end: Option<End>,
}

/// Why and how a connection ends.
pub(crate) type End = (SuspendReason, Ending);

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The server closes the connection, with this code.
    Close(CloseCode),
    /// The peer has closed the connection, possibly with a code. The pending output is still sent.
    ClosedByPeer(Option<u16>),
    /// The peer has disconnected.
    Lost,
    /// The socket continues without this session.
    Released,
}

impl From<CloseCode> for Ending {
    fn from(code: CloseCode) -> Self {
        Self::Close(code)
    }
}

/// Parts of a connection that its protocol uses.
pub(crate) struct Link<'a, C> {
    pub(crate) attachment: &'a Attachment,
    pub(crate) commands: &'a mut C,
    pub(crate) out: &'a mut PendingWrite,
    /// Whether the session has messages for this connection.
    pub(crate) backlog: &'a mut Backlog,
    /// Whether the client's held request must be answered, even if there are no messages.
    pub(crate) is_due: &'a mut bool,
    /// Whether the client has sent anything that would unpark the connection.
    pub(crate) has_input: &'a mut bool,
}
