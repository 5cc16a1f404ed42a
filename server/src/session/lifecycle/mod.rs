//! Life cycle of a session: attaching and parking connections, inputs, deadlines, the end, and restarts of the
//! server.

mod attach;
mod attach_request;
mod directory_changes;
mod ended_sessions;
mod event_sink;
mod online_users;
#[cfg(test)]
mod online_users_tests;
mod parked_outputs;
mod parking;
mod refresh;
mod sessions;
mod snapshot;
mod step;
mod step_in_progress;
mod suspended_sessions;
mod timeline;

pub(crate) use attach_request::{AttachRefusal, AttachRequest, Attached, SessionRequest};
pub(crate) use event_sink::EventSink;
pub(crate) use online_users::{OnlineUsers, UserSink};
pub(crate) use sessions::Sessions;
pub(crate) use snapshot::RestoredSessions;
