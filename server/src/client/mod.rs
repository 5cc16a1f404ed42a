//! Clients, independent of the transport: authentication, attachment to a session, greetings, retry advice.

mod access;
mod admit;
mod attachment;
mod authenticate;
pub(crate) mod bayeux;
mod caller;
mod credentials;
mod greeting;
mod history_entry;
mod identify;
mod limits;
mod partial_messages;
mod presence_replies;
mod refusal;
mod retry;
mod services;
mod shared_session;

pub(crate) use access::Access;
pub(crate) use admit::AdmitRequest;
pub(crate) use attachment::Attachment;
pub(crate) use caller::{Caller, check_tokens_agree};
pub(crate) use greeting::{hello, unsubscribed};
pub(crate) use history_entry::HistoryEntry;
pub(crate) use identify::{IdentifyError, TokenRule};
pub(crate) use limits::SharedLimits;
pub(crate) use partial_messages::PartialMessageSender;
pub(crate) use presence_replies::PresenceReplies;
pub(crate) use refusal::Refusal;
pub(crate) use retry::{goaway, retry_delay};
pub(crate) use services::{ClientSettings, ConnectionParking, Services, StalledComponent};

#[cfg(test)]
mod delivery_time_tests;
#[cfg(test)]
pub(crate) mod slow_engine;
#[cfg(test)]
pub(crate) mod test_services;
