//! The client that publishes.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use encke_loadgen::{ChannelReader, ClientConnection, ClientEvent, Received};
use tokio::time::timeout;

use crate::BenchFailure;
use crate::clients::dialer;
use crate::subscribers::CHANNEL;

const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);

/// Connection that publishes. Replies may be read after all messages are published: they are small, and the
/// kernel buffers them until then.
#[derive(Debug)]
pub(crate) struct BroadcastPublisher {
    connection: ClientConnection,
    command: String,
}

impl BroadcastPublisher {
    /// Connects a client that publishes the same data each time: a string of `data_bytes`, including its
    /// quotes.
    pub(crate) async fn connect(server: SocketAddr, data_bytes: usize) -> Result<Self, BenchFailure> {
        let opened = dialer(server)?.open(None).await;
        let (connection, _) = opened.map_err(|failure| format!("the publisher cannot connect: {failure}"))?;
        let data = "x".repeat(data_bytes - 2);
        let command = format!(r#"{{"id":2,"publish":{{"channel":"{CHANNEL}","data":"{data}"}}}}"#);
        Ok(Self { connection, command })
    }

    pub(crate) async fn publish(&mut self) {
        self.connection.send(&self.command).await;
    }

    /// Reads the replies to `messages` publishes.
    pub(crate) async fn confirm(&mut self, messages: u32) -> Result<(), BenchFailure> {
        let (reader, mut confirmed) = (ChannelReader::new(CHANNEL), 0);
        let replies = self.connection.each(|event| {
            let ClientEvent::Text(text) = event else { return ControlFlow::Continue(()) };
            if reader.read(text) != Received::Reply(None) {
                return ControlFlow::Break(Err(BenchFailure::from(text)));
            }
            confirmed += 1;
            if confirmed == messages { ControlFlow::Break(Ok(())) } else { ControlFlow::Continue(()) }
        });
        timeout(CONFIRM_TIMEOUT, replies)
            .await?
            .map_err(|end| format!("the publisher's connection ended: {end}"))?
    }
}
