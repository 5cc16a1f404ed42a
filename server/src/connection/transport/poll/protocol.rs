use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;
use encke_core::frame::Fragments;
use encke_core::session::ConnectionInput;

use super::response::PollResponse;
use super::writer::ResponseWriter;
use crate::client::Services;
use crate::connection::{Ending, Handled, Link, Protocol, RefusedChannel, Socket};
use crate::session::{DeliveryBatch, DeliveryWriter, SessionCell, SessionOutbox, Transport, take_batch};

/// Approximate maximum size of a response. The rest follows in the next response, which the client requests
/// immediately.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// A request that is held until there is something to respond with.
pub(crate) struct HeldRequest<C> {
    pub(crate) writer: ResponseWriter,
    /// Header lines of the response.
    pub(super) headers: Box<[u8]>,
    pub(super) keep_alive: bool,
    /// State that the socket's task needs after the response.
    pub(crate) continuation: C,
}

impl<C> HeldRequest<C> {
    /// Queues the response, after which nothing else is sent.
    fn respond(&self, content: &PollResponse, link: &mut Link<'_, ()>) {
        link.out.bytes = content.response(&self.headers, self.keep_alive);
    }
}

impl<S: Socket, C: Send + 'static> Protocol<S> for HeldRequest<C> {
    type Commands = ();

    const TRANSPORT: Transport = Transport::Poll;

    /// Input is the next request, of which no more than the head is kept.
    const MAX_UNHANDLED_BYTES: usize = 16 * 1024;

    fn dialect(&self) -> DialectName {
        self.writer.dialect()
    }

    /// Keeps the input until the response has been sent. It is read to notice when the client disconnects.
    fn receive(&mut self, _: &mut [u8], _: &mut Fragments, _: &mut Link<'_, ()>) -> Handled {
        Handled { bytes: 0, end: None }
    }

    fn greet(&mut self, refused: &[RefusedChannel], recovered: bool, link: &mut Link<'_, ()>) {
        self.writer.greet(refused, recovered, link.attachment);
        *link.is_due |= !refused.is_empty();
    }

    /// Never called: polls are not pinged.
    fn write_ping(&mut self, sent: u64, _: &mut Vec<u8>) -> u64 {
        sent
    }

    /// A response ends the poll, which requires a task.
    fn can_send_while_parked(&self) -> bool {
        false
    }

    fn take_batch(
        &mut self,
        services: &Services,
        _: &SessionCell,
        outbox: &mut SessionOutbox,
        _: &mut Vec<u8>,
    ) -> DeliveryBatch {
        self.writer.begin_messages();
        let mut taken = DeliveryBatch::default();
        loop {
            let batch = take_batch(&services.sessions.subscriptions, outbox, &mut self.writer);
            taken.add(batch);
            if !taken.backlog.has_more || self.writer.len() >= MAX_RESPONSE_BYTES {
                return taken;
            }
        }
    }

    fn has_answer(&self) -> bool {
        self.writer.has_messages()
    }

    fn answer(&mut self, link: &mut Link<'_, ()>) {
        // From now on, the session sends nothing more to this poll. If a signal is already pending, it takes
        // precedence, and the next connection gets the messages taken here.
        if !link.attachment.notify_session(ConnectionInput::Sent) {
            let had_messages = self.writer.has_messages();
            self.writer.discard_messages();
            link.out.discard_sample();
            if had_messages {
                *link.is_due = true;
                return;
            }
        }
        let content = self.writer.respond(link.attachment);
        self.respond(&content, link);
    }

    fn superseded(&mut self, link: &mut Link<'_, ()>) {
        if link.out.is_empty() {
            let content = self.writer.respond_superseded(link.attachment);
            self.respond(&content, link);
        }
    }

    fn written(&mut self, link: &mut Link<'_, ()>) -> Result<(), Ending> {
        link.attachment.notify_session(ConnectionInput::Answered { pause: self.writer.pause() });
        Err(Ending::Released)
    }

    fn released(&mut self, code: CloseCode, link: &mut Link<'_, ()>) -> Result<(), Ending> {
        if link.out.is_empty() {
            let content = self.writer.respond_closed(code, link.attachment);
            self.respond(&content, link);
        }
        Ok(())
    }

    /// Never called: a poll ends with its response.
    fn write_farewell(_: CloseCode, _: &Services, _: &mut Vec<u8>) {}
}
