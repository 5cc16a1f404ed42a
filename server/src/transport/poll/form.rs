use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;

use super::answer::Content;
use crate::channel::ChannelName;
use crate::client::Attachment;
use crate::session::Outgoing;

/// What a dialect makes of a poll's answer.
pub(crate) trait Form: Outgoing + Send + 'static {
    const DIALECT: DialectName;

    /// The session is a new one.
    fn greet(&mut self, attachment: &Attachment);

    /// The client does not follow this channel, or no longer.
    fn refused(&mut self, channel: &ChannelName, reason: &'static str);

    /// What follows is taken from the session.
    fn begin(&mut self);

    /// Whether anything was.
    fn has_taken(&self) -> bool;

    /// Another connection gets what was taken since [`Self::begin`].
    fn forget_taken(&mut self);

    /// All that there is to say.
    fn answer(&mut self, attachment: &Attachment) -> Content;

    /// The session lets go of its client, for this reason. There is no Close frame here: the answer says when to come back.
    fn goodbye(&mut self, code: CloseCode, attachment: &Attachment) -> Content;

    /// Another poll of the session has come.
    fn superseded(&mut self, attachment: &Attachment) -> Content;

    /// How long the answer asks the client to wait before its next poll.
    fn pause(&self) -> Duration;
}
