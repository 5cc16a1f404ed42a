//! Head of an HTTP/1.1 response, read from a stream that may then switch to another protocol.

use std::future::poll_fn;
use std::task::{Poll, ready};

use httparse::{EMPTY_HEADER, Status};
use tokio::io::AsyncRead;

use crate::transport::error::ConnectError;
use crate::transport::stream::poll_parse;

const MAX_HEAD_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;

/// Status and headers of a response, and the bytes that followed them.
#[derive(Debug)]
pub struct ResponseHead {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub(crate) rest: Vec<u8>,
}

impl ResponseHead {
    pub async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Self, ConnectError> {
        let mut rest = Vec::new();
        let head = poll_fn(|context| {
            loop {
                let head = poll_parse(stream, context, &mut rest, |input| Self::parse(input).transpose());
                if let Some(head) = ready!(head)? {
                    return Poll::Ready(head);
                }
            }
        });
        let head = head.await?;
        Ok(Self { rest, ..head })
    }

    /// Removes a head from the beginning of the bytes, if it is complete.
    pub(super) fn parse(input: &mut &[u8]) -> Result<Option<Self>, ConnectError> {
        let mut headers = [EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(input) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) if input.len() < MAX_HEAD_BYTES => return Ok(None),
            Ok(Status::Partial) => return Err(ConnectError::NotHttp("its head is too long".to_owned())),
            Err(error) => return Err(ConnectError::NotHttp(error.to_string())),
        };
        let headers = response.headers.iter().map(|header| {
            (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).trim().to_owned())
        });
        let (status, headers) = (response.code.unwrap_or_default(), headers.collect());
        *input = &input[length..];
        Ok(Some(Self { status, headers, rest: Vec::new() }))
    }

    /// Returns the first header with this name, which must be in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether a comma-separated header contains this word.
    pub(crate) fn has_token(&self, name: &str, word: &str) -> bool {
        let values = self.headers.iter().filter(|(known, _)| known == name).flat_map(|it| it.1.split(','));
        values.into_iter().any(|value| value.trim().eq_ignore_ascii_case(word))
    }
}
