//! The client that publishes.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Failure;
use crate::audience::CHANNEL;
use crate::client::connect;
use crate::frames::{self, Frame};

const PATIENCE: Duration = Duration::from_secs(10);

/// One connection. It reads the replies when all is published: they are small, and the kernel holds them until then.
#[derive(Debug)]
pub(crate) struct Publisher {
    stream: TcpStream,
    command: Vec<u8>,
}

impl Publisher {
    /// Every message has the same data, a string of `data_bytes` with its quotes.
    pub(crate) async fn connect(server: SocketAddr, data_bytes: usize) -> Result<Self, Failure> {
        let mut stream = connect(server, 0).await?;
        let mut read = Vec::new();
        timeout(PATIENCE, async {
            while !has_hello(&read) {
                if stream.read_buf(&mut read).await? == 0 {
                    return Err(Failure::from("the publisher is not greeted"));
                }
            }
            Ok(())
        })
        .await??;
        let data = "x".repeat(data_bytes - 2);
        let command = format!(r#"{{"id":2,"publish":{{"channel":"{CHANNEL}","data":"{data}"}}}}"#);
        Ok(Self { stream, command: frames::masked_text(command.as_bytes()) })
    }

    pub(crate) async fn publish(&mut self) -> Result<(), Failure> {
        Ok(self.stream.write_all(&self.command).await?)
    }

    /// Reads the replies to everything that was published.
    pub(crate) async fn confirm(mut self, messages: u32) -> Result<(), Failure> {
        let mut read = Vec::new();
        let mut confirmed = 0;
        timeout(PATIENCE, async {
            while confirmed < messages {
                if self.stream.read_buf(&mut read).await? == 0 {
                    return Err(Failure::from("the publisher's connection was closed"));
                }
                let mut used = 0;
                while let Some((frame, length)) =
                    frames::parse(&read[used..]).map_err(|_| "the publisher was sent a bad frame")?
                {
                    if let Frame::Text(text) = frame {
                        if !text.starts_with(br#"{"reply":{"id":2,"ok""#) {
                            return Err(String::from_utf8_lossy(text).into());
                        }
                        confirmed += 1;
                    }
                    used += length;
                }
                read.drain(..used);
            }
            Ok(())
        })
        .await?
    }
}

/// Whether the response and a whole frame after it are there.
fn has_hello(read: &[u8]) -> bool {
    let end = read.windows(4).position(|window| window == b"\r\n\r\n");
    end.is_some_and(|end| matches!(frames::parse(&read[end + 4..]), Ok(Some((Frame::Text(_), _)))))
}
