//! Requests and responses of a protocol.

use std::fmt::Debug;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::event::EventQueue;
use crate::transport::Request;
use crate::transport::websocket::{ConnectionEnd, ProtocolFault};
use crate::{ClientFailure, Greeting, json};

pub(super) const OK: u16 = 200;

pub(crate) trait Dialect: Debug {
    /// Returns the next request of the opening, and after it the request that the server holds. Over WebSocket,
    /// only the body of a request is sent.
    fn poll(&mut self) -> Request;
    /// Returns a request with these commands, at least one.
    fn commands(&self, commands: &[String]) -> Request;
    fn subscribe(&self, channel: &str) -> String {
        json::subscribe(channel)
    }
    /// Returns the command that publishes `data`, which is JSON.
    fn publish(&self, id: u64, channel: &str, data: &str) -> String {
        json::publish(id, channel, data)
    }
    fn close_command(&self) -> String;
    /// Processes a response, which arrived while a poll that was sent `polled_for` ago was pending. Over HTTP,
    /// it is the response to the poll, or to commands if `polled_for` is `None`. Returns whether it answers
    /// the poll.
    fn on_response(
        &mut self,
        status: u16,
        body: &[u8],
        polled_for: Option<Duration>,
        inbox: &mut Inbox,
    ) -> Result<bool, ConnectionEnd>;
    fn poll_delay(&self) -> Duration;
}

/// Received events that have not been delivered yet, and the result of the opening.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(super) events: EventQueue,
    pub(super) opened: Option<Result<Greeting, ClientFailure>>,
}

pub(super) fn objects(body: &[u8]) -> Result<Vec<&str>, ConnectionEnd> {
    let objects: Vec<&RawValue> =
        serde_json::from_slice(body).map_err(|_| ConnectionEnd::Fault(ProtocolFault::Answer))?;
    Ok(objects.into_iter().map(RawValue::get).collect())
}
