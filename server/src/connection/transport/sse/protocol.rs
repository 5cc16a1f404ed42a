use std::future::Future;

use encke_broker::channel::ChannelName;
use encke_core::close::CloseCode;
use encke_core::dialect::{DialectName, StartPosition};
use encke_core::frame::Fragments;

use super::event::{EventWriter, write_farewell, write_heartbeat};
use super::positions::Positions;
use crate::admission::CompactConnection;
use crate::client::{Services, hello, unsubscribed};
use crate::connection::{Connection, Handled, Link, Parkable, Protocol, RefusedChannel, Socket, drive};
use crate::session::{DeliveryBatch, SessionCell, SessionOutbox, SubscribeOutcome, Transport, take_batch};

/// An event stream.
#[derive(Debug)]
pub(crate) struct EventStream {
    /// Client's position in each channel.
    pub(super) positions: Positions,
    /// Held until the stream ends.
    pub(super) open_connection: CompactConnection,
}

impl EventStream {
    /// Returns whether the client's last id lacks any of the channels.
    fn add_subscriptions(&mut self, outbox: &SessionOutbox) -> bool {
        let channels = outbox.subscriptions().map(|it| &it.channel.channel);
        self.positions.add_subscriptions(channels.map(|channel| (channel.name(), channel.epoch())))
    }
}

impl<S: Socket> Protocol<S> for EventStream {
    type Commands = ();

    const TRANSPORT: Transport = Transport::Events;
    const PINGS_ARE_ACKNOWLEDGED: bool = true;

    fn dialect(&self) -> DialectName {
        DialectName::Json
    }

    /// Discards the input: a stream needs none.
    fn receive(&mut self, bytes: &mut [u8], _: &mut Fragments, link: &mut Link<'_, ()>) -> Handled {
        *link.has_input = true;
        Handled { bytes: bytes.len(), end: None }
    }

    fn subscribed(
        &mut self,
        requested: &ChannelName,
        outcome: &SubscribeOutcome,
        begin: StartPosition<'static>,
    ) {
        self.positions.start(requested, outcome, begin);
    }

    /// Greets the client only now, because the hello tells it its position in each channel.
    fn greet(&mut self, refused: &[RefusedChannel], recovered: bool, link: &mut Link<'_, ()>) {
        let token = link.attachment.session.resume_token().expose();
        let hello = hello(link.attachment, &token, recovered);
        let seq = link.attachment.mailbox.start_seq();
        let state = link.attachment.session.lock();
        self.add_subscriptions(state.machine.outbox());
        drop(state);
        let mut events =
            EventWriter { out: &mut link.out.bytes, token: &token, positions: &mut self.positions };
        events.write_numbered(seq, &hello);
        for (channel, reason) in refused {
            events.write_plain(&unsubscribed(channel, reason));
        }
    }

    fn write_ping(&mut self, sent: u64, out: &mut Vec<u8>) -> u64 {
        write_heartbeat(out);
        sent
    }

    fn take_batch(
        &mut self,
        services: &Services,
        session: &SessionCell,
        outbox: &mut SessionOutbox,
        out: &mut Vec<u8>,
    ) -> DeliveryBatch {
        // Only an outbox that is catching up can have subscriptions that the positions lack.
        let has_new_channels = outbox.is_catching_up() && self.add_subscriptions(outbox);
        let token = session.resume_token().expose();
        let mut events = EventWriter { out, token: &token, positions: &mut self.positions };
        // The client may disconnect before the next message. Without a new id, its next session would not know
        // that it has been following these channels.
        if has_new_channels {
            events.write_id_alone(outbox.sent());
        }
        take_batch(&services.sessions.subscriptions, outbox, &mut events)
    }

    fn write_farewell(code: CloseCode, services: &Services, out: &mut Vec<u8>) {
        write_farewell(out, code, &services.entropy);
    }
}

impl<S: Socket> Parkable<S> for EventStream {
    fn park(self) -> Self {
        Self { open_connection: self.open_connection.compact(), ..self }
    }

    fn run(connection: Connection<S, Self>) -> impl Future<Output: Send + 'static> + Send + 'static {
        drive(connection)
    }
}
