//! Tokens that authenticate clients. Nothing in this module prints a token.

use std::process::Stdio;
use std::time::{Duration, SystemTime};

use data_encoding::BASE64URL_NOPAD;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::ClientFailure;

/// Minimum remaining lifetime of a token: one that expires sooner is not used.
const MIN_TIME_LEFT: Duration = Duration::from_secs(10);
/// Minimum time between a failure of the command and its next run.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Returns whether a string may follow `Bearer` (RFC 6750, section 2.1). Other characters could inject
/// another header.
pub(crate) fn is_token(text: &SecretString) -> bool {
    let is_token_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let text = text.expose_secret();
    !text.is_empty() && text.bytes().all(is_token_char)
}

/// Returns the header line that carries the token, including the line break.
fn header(token: &SecretString) -> String {
    format!("Authorization: Bearer {}\r\n", token.expose_secret())
}

/// Source of tokens.
#[derive(Clone, Debug)]
pub enum TokenSource {
    /// One token for all connections.
    Fixed(SecretString),
    /// Shell command that prints a token. It runs at the start, and again when a connection is opened while
    /// the last token is close to its `exp`.
    Command(SecretString),
}

/// Provides the current token.
#[derive(Debug)]
pub(super) struct Tokens {
    source: Option<TokenSource>,
    last: Mutex<Option<TokenResult>>,
}

/// Token that the command printed, or why it did not print one.
#[derive(Debug)]
struct TokenResult {
    token: Result<SecretString, String>,
    at: Instant,
    /// Expiry as time since the Unix epoch.
    expires_at: Option<Duration>,
}

impl Tokens {
    pub(super) fn new(source: Option<TokenSource>) -> Self {
        Self { source, last: Mutex::new(None) }
    }

    /// Returns the header lines to send with a request: empty, or one line.
    pub(super) async fn headers(&self) -> Result<String, ClientFailure> {
        match &self.source {
            None => Ok(String::new()),
            Some(TokenSource::Fixed(token)) => Ok(header(token)),
            // Boxed because a task is as large as its largest state, for as long as it lives.
            Some(TokenSource::Command(command)) => Box::pin(self.headers_from(command)).await,
        }
    }

    /// Returns the header lines for the command's token. Callers that arrive while the command runs wait for
    /// its result.
    async fn headers_from(&self, command: &SecretString) -> Result<String, ClientFailure> {
        let mut last = self.last.lock().await;
        let written = match last.take().filter(TokenResult::is_usable) {
            Some(written) => written,
            None => TokenResult::from_command(command).await,
        };
        let headers = written.token.as_ref().map(header);
        let headers = headers.map_err(|why| ClientFailure::Token(why.clone()));
        *last = Some(written);
        headers
    }
}

impl TokenResult {
    async fn from_command(command: &SecretString) -> Self {
        let token = run(command).await;
        let expires_at = token.as_ref().ok().and_then(|token| expiry(token.expose_secret()));
        Self { token, at: Instant::now(), expires_at }
    }

    fn is_usable(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        match &self.token {
            Ok(_) => self.expires_at.is_none_or(|expires_at| now + MIN_TIME_LEFT < expires_at),
            Err(_) => self.at.elapsed() < MIN_RETRY_DELAY,
        }
    }
}

/// Runs the command. Its stderr is loadgen's.
async fn run(command: &SecretString) -> Result<SecretString, String> {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command.expose_secret()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    let output = shell.output().await.map_err(|error| format!("the command cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("the command ended with {}", output.status));
    }
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    Some(SecretString::from(text.trim()))
        .filter(is_token)
        .ok_or_else(|| "the command did not print exactly one token".to_owned())
}

/// Returns the `exp` of a JSON Web Token (RFC 7519, section 4.1.4). `None` if the string is not such a token
/// or has no `exp`.
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

    fn expiring_in(time: i64) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is after 1970");
        let exp = i64::try_from(now.as_secs()).expect("the time fits into an i64") + time;
        format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(format!(r#"{{"sub":"a","exp":{exp}}}"#).as_bytes()))
    }

    /// Requests headers `times` times from a command that prints `token`. Returns how often the command ran,
    /// counted by the lines that it appends to a file, and the results.
    async fn runs(token: &str, times: usize) -> (usize, Vec<Result<String, String>>) {
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be created");
        let command = format!("echo x >> {}; {token}", file.path().display());
        let tokens = Tokens::new(Some(TokenSource::Command(command.into())));
        let mut all = Vec::new();
        for _ in 0..times {
            all.push(tokens.headers().await.map_err(|failure| failure.to_string()));
        }
        (std::fs::read_to_string(file.path()).expect("the file exists").lines().count(), all)
    }

    #[tokio::test]
    async fn the_command_is_run_once_until_the_token_is_about_to_expire() {
        let lasting = expiring_in(3600);
        let (count, all) = runs(&format!("echo {lasting}"), 3).await;
        assert_eq!(
            (count, all[2].as_deref()),
            (1, Ok(format!("Authorization: Bearer {lasting}\r\n").as_str()))
        );
        assert_eq!(runs("echo abc", 3).await.0, 1, "a token without `exp` does not expire");
        assert_eq!(runs(&format!("echo {}", expiring_in(5)), 3).await.0, 3);
    }

    #[tokio::test]
    async fn a_failing_command_is_reported_without_its_output() {
        for (command, why) in [
            ("echo hidden; exit 3", "exit status: 3"),
            ("echo hidden and more", "did not print exactly one token"),
            ("true", "did not print exactly one token"),
        ] {
            let (count, all) = runs(command, 2).await;
            let error = all[1].as_ref().expect_err("there is no token");
            assert!(error.contains(why) && !error.contains("hidden"), "{error}");
            assert_eq!(count, 1, "the command is not run again at once");
        }
    }

    #[tokio::test]
    async fn no_debug_output_has_a_token() {
        for source in [TokenSource::Fixed("hidden".into()), TokenSource::Command("echo hidden".into())] {
            let tokens = Tokens::new(Some(source));
            assert!(tokens.headers().await.expect("the source provides a token").contains("hidden"));
            assert!(!format!("{tokens:?}").contains("hidden"), "{tokens:?}");
        }
    }

    #[test]
    fn only_token_characters_are_accepted() {
        for (text, expected) in
            [("abc.d-e_f~+/=", true), ("", false), ("a b", false), ("a\r\nHost: x", false), ("ä", false)]
        {
            assert_eq!(is_token(&text.into()), expected, "{text}");
        }
    }
}
