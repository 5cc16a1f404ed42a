use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;

use super::response::PollResponse;
use crate::channel::ChannelName;
use crate::client::Attachment;
use crate::session::DeliveryWriter;

/// Writes the response to a poll in one dialect.
pub(crate) trait PollResponseWriter: DeliveryWriter + Send + 'static {
    const DIALECT: DialectName;

    /// Greets the client. Called if the session is new.
    fn greet(&mut self, attachment: &Attachment);

    /// Reports a channel whose subscription was refused or revoked.
    fn report_refused(&mut self, channel: &ChannelName, reason: &'static str);

    /// Marks where messages begin. Called before messages are taken from the session.
    fn begin_messages(&mut self);

    /// Whether any messages were taken since [`Self::begin_messages`].
    fn has_messages(&self) -> bool;

    /// Discards the messages taken since [`Self::begin_messages`], because another connection gets them.
    fn discard_messages(&mut self);

    /// Builds the regular response.
    fn respond(&mut self, attachment: &Attachment) -> PollResponse;

    /// Builds the response for a session that releases its client. The response says when to reconnect, since
    /// there is no Close frame.
    fn respond_closed(&mut self, code: CloseCode, attachment: &Attachment) -> PollResponse;

    /// Builds the response for a poll that is superseded by another poll of its session.
    fn respond_superseded(&mut self, attachment: &Attachment) -> PollResponse;

    /// How long the response asks the client to wait before its next poll.
    fn pause(&self) -> Duration;
}
