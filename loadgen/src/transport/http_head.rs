//! Head of an HTTP/1.1 response, read from a stream that may then switch to another protocol.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::error::{ConnectError, ResponseHeadError};
use super::read_buffer;

/// Size limit for a head.
pub(crate) const MAX_HEAD_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;

/// Status and headers of a response, and the bytes that followed them.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) rest: Vec<u8>,
}

impl ResponseHead {
    /// Reads a head. Usually buffers nothing while waiting: a head that arrives in one piece is parsed in the
    /// shared read buffer.
    pub(crate) async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Self, ConnectError> {
        let mut before = Vec::new();
        poll_fn(|context| {
            loop {
                let step = read_buffer::lend(|buffer| {
                    let mut buffer = ReadBuf::new(buffer);
                    ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
                    Poll::Ready(Self::take(&mut before, buffer.filled()))
                });
                if let Some(head) = ready!(step)? {
                    return Poll::Ready(Ok(head));
                }
            }
        })
        .await
    }

    /// Returns the head if `bytes` complete it, together with the bytes in `before`.
    fn take(before: &mut Vec<u8>, bytes: &[u8]) -> Result<Option<Self>, ConnectError> {
        if bytes.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if before.is_empty()
            && let Some(head) = Self::parse(bytes)?
        {
            return Ok(Some(head));
        }
        before.extend_from_slice(bytes);
        let head = Self::parse(before)?;
        if head.is_none() && before.len() >= MAX_HEAD_BYTES {
            Err(ResponseHeadError::TooLong.into())
        } else {
            Ok(head)
        }
    }

    fn parse(bytes: &[u8]) -> Result<Option<Self>, ResponseHeadError> {
        let split = Self::split(bytes)?;
        Ok(split.map(|(head, length)| Self { rest: bytes[length..].to_vec(), ..head }))
    }

    /// Parses the head at the beginning of the bytes and returns it with its length, if it is complete.
    pub(super) fn split(bytes: &[u8]) -> Result<Option<(Self, usize)>, ResponseHeadError> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = response.parse(bytes).map_err(ResponseHeadError::Syntax)?
        else {
            return Ok(None);
        };
        let headers = response.headers.iter().map(|header| {
            (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).trim().to_owned())
        });
        let (status, headers) = (response.code.unwrap_or_default(), headers.collect());
        Ok(Some((Self { status, headers, rest: Vec::new() }, length)))
    }

    /// Returns the first header with this name, which must be in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether a comma-separated header contains this word.
    pub(crate) fn has_token(&self, name: &str, word: &str) -> bool {
        let mut values =
            self.headers.iter().filter(|(known, _)| known == name).flat_map(|it| it.1.split(','));
        values.any(|value| value.trim().eq_ignore_ascii_case(word))
    }
}
