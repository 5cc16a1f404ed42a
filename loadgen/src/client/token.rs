//! Tokens with which clients show a server who they are. Nothing here prints one.

use std::fmt;
use std::process::Stdio;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Failure;

/// A token that has less time left than this is not used any more.
const LEAST_TIME_LEFT: Duration = Duration::from_secs(10);
/// A command that has failed is not run again sooner.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Something that is not to be printed: a token, or a command that may have one in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Takes every text: an error of the command line would print it.
impl FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl Secret {
    /// RFC 6750, section 2.1: what may follow `Bearer`. Anything else could be another header.
    pub(crate) fn is_token(&self) -> bool {
        let is_token_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        !self.0.is_empty() && self.0.bytes().all(is_token_char)
    }

    /// The header that carries it, with the end of its line.
    fn header(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.0)
    }
}

/// Where tokens come from.
#[derive(Clone, Debug)]
pub enum TokenSource {
    /// The same for all connections.
    Fixed(Secret),
    /// What this command of the shell writes: run at the start, and again when a connection is opened and the `exp` of the last
    /// token is near.
    Command(Secret),
}

/// The token of the moment.
#[derive(Debug)]
pub(super) struct Tokens {
    source: Option<TokenSource>,
    last: Mutex<Option<Written>>,
}

/// What the command has written, or why it has not.
#[derive(Debug)]
struct Written {
    token: Result<Secret, String>,
    at: Instant,
    /// Since 1970.
    expires_at: Option<Duration>,
}

impl Tokens {
    pub(super) fn new(source: Option<TokenSource>) -> Self {
        Self { source, last: Mutex::new(None) }
    }

    /// The headers to send with a request: none, or one.
    pub(super) async fn headers(&self) -> Result<String, Failure> {
        match &self.source {
            None => Ok(String::new()),
            Some(TokenSource::Fixed(token)) => Ok(token.header()),
            // Boxed, for a task is as large as what it may hold at once, for all its life.
            Some(TokenSource::Command(command)) => Box::pin(self.headers_by(command)).await,
        }
    }

    /// Whoever comes while the command runs waits for what it writes.
    async fn headers_by(&self, command: &Secret) -> Result<String, Failure> {
        let mut last = self.last.lock().await;
        let written = match last.take().filter(Written::is_good) {
            Some(written) => written,
            None => Written::by(command).await,
        };
        let headers = written.token.as_ref().map(Secret::header);
        let headers = headers.map_err(|why| Failure::Token(why.clone()));
        *last = Some(written);
        headers
    }
}

impl Written {
    async fn by(command: &Secret) -> Self {
        let token = run(command).await;
        let expires_at = token.as_ref().ok().and_then(|Secret(token)| expiry(token));
        Self { token, at: Instant::now(), expires_at }
    }

    fn is_good(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        match &self.token {
            Ok(_) => self.expires_at.is_none_or(|expires_at| now + LEAST_TIME_LEFT < expires_at),
            Err(_) => self.at.elapsed() < PAUSE_AFTER_FAILURE,
        }
    }
}

/// What it writes to stderr goes to loadgen's.
async fn run(Secret(command): &Secret) -> Result<Secret, String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    let output = shell.output().await.map_err(|error| format!("it cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("it ended with {}", output.status));
    }
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    Some(Secret(text.trim().to_owned()))
        .filter(Secret::is_token)
        .ok_or_else(|| "it wrote something else than one token".to_owned())
}

/// The `exp` of a JSON Web Token (RFC 7519, section 4.1.4), if it is one and has one.
fn expiry(token: &str) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let claims = BASE64URL_NOPAD.decode(token.split('.').nth(1)?.as_bytes()).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    Duration::try_from_secs_f64(exp).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret(text.to_owned())
    }

    fn expiring_in(time: i64) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
        let exp = i64::try_from(now.as_secs()).expect("it is not the far future") + time;
        format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(format!(r#"{{"sub":"a","exp":{exp}}}"#).as_bytes()))
    }

    /// Each run writes one more line to a file; the token is what `token` says.
    async fn runs(token: &str, times: usize) -> (usize, Vec<Result<String, String>>) {
        let file = tempfile::NamedTempFile::new().expect("there is room for a file");
        let command = format!("echo x >> {}; {token}", file.path().display());
        let tokens = Tokens::new(Some(TokenSource::Command(secret(&command))));
        let mut all = Vec::new();
        for _ in 0..times {
            all.push(tokens.headers().await.map_err(|failure| failure.to_string()));
        }
        (std::fs::read_to_string(file.path()).expect("it is there").lines().count(), all)
    }

    #[tokio::test]
    async fn the_command_is_run_once_until_the_token_is_about_to_expire() {
        let lasting = expiring_in(3600);
        let (count, all) = runs(&format!("echo {lasting}"), 3).await;
        assert_eq!(
            (count, all[2].as_deref()),
            (1, Ok(format!("Authorization: Bearer {lasting}\r\n").as_str()))
        );
        assert_eq!(runs("echo abc", 3).await.0, 1, "what says nothing of its end has none");
        assert_eq!(runs(&format!("echo {}", expiring_in(5)), 3).await.0, 3);
    }

    #[tokio::test]
    async fn a_command_that_fails_says_so_without_its_words() {
        for (command, why) in [
            ("echo hidden; exit 3", "exit status: 3"),
            ("echo hidden and more", "something else than one token"),
            ("true", "something else than one token"),
        ] {
            let (count, all) = runs(command, 2).await;
            let error = all[1].as_ref().expect_err("there is no token");
            assert!(error.contains(why) && !error.contains("hidden"), "{error}");
            assert_eq!(count, 1, "it is not run again at once");
        }
    }

    #[tokio::test]
    async fn no_debug_output_has_a_token() {
        for source in [TokenSource::Fixed(secret("hidden")), TokenSource::Command(secret("echo hidden"))] {
            let tokens = Tokens::new(Some(source));
            assert!(tokens.headers().await.expect("there is one").contains("hidden"));
            assert!(!format!("{tokens:?}").contains("hidden"), "{tokens:?}");
        }
    }

    #[test]
    fn what_is_no_token_is_known() {
        for (text, is_token) in
            [("abc.d-e_f~+/=", true), ("", false), ("a b", false), ("a\r\nHost: x", false), ("ä", false)]
        {
            assert_eq!(secret(text).is_token(), is_token, "{text}");
        }
    }
}
