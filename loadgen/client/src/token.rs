//! Tokens that authenticate clients. Nothing in this module prints a token.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use data_encoding::BASE64URL_NOPAD;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::ClientFailure;

/// Minimum remaining lifetime of a token: one that expires sooner is not used.
const MIN_TIME_LEFT: Duration = Duration::from_secs(10);
/// Minimum time between a failure of the command and its next run.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Returns whether a string may follow `Bearer` (RFC 6750, section 2.1). Other characters could inject
/// another header.
pub fn is_token(text: &SecretString) -> bool {
    let is_token_char = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let text = text.expose_secret();
    !text.is_empty() && text.bytes().all(is_token_char)
}

/// Source of the tokens that authenticate clients: one fixed token, or a shell command that prints a token. The
/// command runs at the start, and again when a connection is opened while the last token is close to its `exp`.
/// Clones share the token, also between threads.
#[derive(Clone, Debug)]
pub struct TokenSource(Arc<SharedToken>);

#[derive(Debug)]
struct SharedToken {
    /// Empty for a fixed token.
    command: SecretString,
    last: Mutex<Option<TokenResult>>,
}

/// Token that the command printed, or why it did not print one.
#[derive(Debug)]
struct TokenResult {
    token: Result<SecretString, String>,
    /// When the command is run again. `None`: never.
    usable_until: Option<Instant>,
}

impl From<String> for TokenSource {
    fn from(command: String) -> Self {
        Self(Arc::new(SharedToken { command: command.into(), last: Mutex::default() }))
    }
}

impl TokenSource {
    /// Uses this token for all connections.
    pub fn fixed(token: SecretString) -> Self {
        let last = TokenResult { token: Ok(token), usable_until: None };
        Self(Arc::new(SharedToken { command: SecretString::default(), last: Mutex::new(Some(last)) }))
    }

    /// Returns the header line to send with a request, including the line break. Callers that arrive while the
    /// command runs wait for its result.
    pub(crate) async fn header(&self) -> Result<String, ClientFailure> {
        let mut last = self.0.last.lock().await;
        let result = match last.take().filter(TokenResult::is_usable) {
            Some(result) => result,
            // Boxed because a task is as large as its largest state, for as long as it lives.
            None => Box::pin(TokenResult::from_command(&self.0.command)).await,
        };
        let TokenResult { token, .. } = last.insert(result);
        match token {
            Ok(token) => Ok(format!("Authorization: Bearer {}\r\n", token.expose_secret())),
            Err(why) => Err(ClientFailure::Token(why.clone())),
        }
    }
}

impl TokenResult {
    async fn from_command(command: &SecretString) -> Self {
        let token = run(command).await;
        let usable_for = match &token {
            Ok(token) => expiry(token.expose_secret()).map(|expiry| expiry.saturating_sub(MIN_TIME_LEFT)),
            Err(_) => Some(MIN_RETRY_DELAY),
        };
        Self { token, usable_until: usable_for.and_then(|time| Instant::now().checked_add(time)) }
    }

    fn is_usable(&self) -> bool {
        self.usable_until.is_none_or(|until| Instant::now() < until)
    }
}

/// Runs the command. Its stderr is loadgen's.
async fn run(command: &SecretString) -> Result<SecretString, String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command.expose_secret()]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = shell
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| format!("the command cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("the command ended with {}", output.status));
    }
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    Some(SecretString::from(text.trim()))
        .filter(is_token)
        .ok_or_else(|| "the command did not print exactly one token".to_owned())
}

/// Returns the time until the `exp` of a JSON Web Token (RFC 7519, section 4.1.4). `None` if the string is not
/// such a token or has no `exp`.
fn expiry(token: &str) -> Option<Duration> {
    let claims = BASE64URL_NOPAD.decode(token.split('.').nth(1)?.as_bytes()).ok()?;
    let exp = serde_json::from_slice::<Value>(&claims).ok()?["exp"].as_f64()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(Duration::try_from_secs_f64(exp).ok()?.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expiring_in(time: i64) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is after 1970");
        let exp = i64::try_from(now.as_secs()).expect("the time fits into an i64") + time;
        format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(format!(r#"{{"sub":"a","exp":{exp}}}"#).as_bytes()))
    }

    /// Requests headers three times from a command that prints `token`, from different threads. Returns how
    /// often the command ran, counted by the lines that it appends to a file, and the last result.
    async fn runs(token: &str) -> (usize, Result<String, String>) {
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be created");
        let source = TokenSource::from(format!("echo x >> {}; {token}", file.path().display()));
        let mut last = Err("not run".to_owned());
        for _ in 0..3 {
            let source = source.clone();
            let header = tokio::spawn(async move { source.header().await }).await.expect("the task ends");
            last = header.map_err(|failure| failure.to_string());
        }
        assert!(!format!("{source:?}").contains("hidden"));
        (std::fs::read_to_string(file.path()).expect("the file exists").lines().count(), last)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_command_is_run_once_until_the_token_is_about_to_expire() {
        let lasting = expiring_in(3600);
        let header = format!("Authorization: Bearer {lasting}\r\n");
        assert_eq!(runs(&format!("echo {lasting}")).await, (1, Ok(header)));
        assert_eq!(runs("echo hidden").await.0, 1, "a token without `exp` does not expire");
        assert_eq!(runs(&format!("echo {}", expiring_in(5))).await.0, 3);
        for (failing, why) in [
            ("echo hidden; exit 3", "exit status: 3"),
            ("echo hidden and more", "did not print exactly one token"),
            ("true", "did not print exactly one token"),
        ] {
            let (count, last) = runs(failing).await;
            let error = last.expect_err("there is no token");
            assert!(error.contains(why) && !error.contains("hidden"), "{error}");
            assert_eq!(count, 1, "the command is not run again at once");
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
