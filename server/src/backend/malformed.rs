//! Responses that the server cannot use. They deny the request, and the log says what is wrong with them.

use std::time::Duration;

use encke_base::outbound::OutboundResponse;
use encke_core::Timestamp;
use hyper::header::CONTENT_TYPE;
use strum::EnumCount;

use super::hook::HookKind;
use crate::admission::LogThrottle;

/// Minimum time between two lines about the same cause.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of bytes of a body that are logged.
const MAX_EXCERPT_BYTES: usize = 200;

/// Number of characters from which a word of a body may be a secret, such as a token.
const SECRET_CHARS: usize = 24;

/// Problem of a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct MalformedResponse {
    cause: MalformedCause,
    problem: String,
}

/// Kind of a problem. Each is logged separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount)]
pub(super) enum MalformedCause {
    Empty,
    NotAnObject,
    Content,
    /// The error has a code or a message that is too long.
    TooLong,
}

/// Log of malformed responses.
#[derive(Debug)]
pub(super) struct MalformedLog([[LogThrottle; MalformedCause::COUNT]; HookKind::COUNT]);

impl Default for MalformedLog {
    fn default() -> Self {
        let throttle = || LogThrottle::with_interval(LOG_INTERVAL);
        Self(std::array::from_fn(|_| std::array::from_fn(|_| throttle())))
    }
}

impl MalformedLog {
    /// Logs a malformed response. `reply` is `None` if it is no longer known.
    pub(super) fn report(
        &self,
        hook: HookKind,
        malformed: &MalformedResponse,
        reply: Option<&OutboundResponse>,
        now: Timestamp,
    ) {
        let Some(suppressed) = self.0[hook as usize][malformed.cause as usize].pass(now) else { return };
        let content_type = reply.and_then(|reply| reply.headers.get(CONTENT_TYPE)?.to_str().ok());
        tracing::warn!(
            hook = <&str>::from(hook),
            problem = %malformed,
            status = reply.map(|reply| reply.status.as_u16()),
            content_type,
            body = reply.map(|reply| excerpt(&reply.body)),
            suppressed,
            "the backend's response is not valid: the request is denied"
        );
    }
}

impl MalformedResponse {
    pub(super) fn is_too_long(&self) -> bool {
        self.cause == MalformedCause::TooLong
    }

    /// `problem` may quote the body.
    pub(super) fn new(cause: MalformedCause, problem: &str) -> Self {
        Self { cause, problem: excerpt(problem.as_bytes()) }
    }
}

/// Returns the beginning of a text on one line, without words that may be secrets.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_EXCERPT_BYTES)]);
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.+/=~".contains(c);
    let mut shown = String::new();
    let mut rest = &*text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_part(c) != is_part(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        match is_part(first) && word.len() >= SECRET_CHARS {
            true => shown.push_str("[...]"),
            false => word.chars().for_each(|c| match c.is_control() {
                true => shown.extend(c.escape_default()),
                false => shown.push(c),
            }),
        }
        rest = after;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_no_secrets() {
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl";
        for (body, shown) in [
            ("<h1>Not\nfound</h1>".to_owned(), "<h1>Not\\nfound</h1>".to_owned()),
            (format!("token={token}"), "[...]".to_owned()),
            (format!("{{\"token\":\"{token}\"}}"), "{\"token\":\"[...]\"}".to_owned()),
            ("\u{1b}[31m".to_owned(), "\\u{1b}[31m".to_owned()),
            ("x y ".repeat(100), "x y ".repeat(50)),
        ] {
            assert_eq!(excerpt(body.as_bytes()), shown);
        }
        // A secret that the limit cuts off.
        assert_eq!(excerpt(format!("{}{token}", " ".repeat(190)).as_bytes()).trim(), &token[..10]);
    }
}
