//! `encke token`: signs a token with the configured secret, for testing.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use encke_timeouts::clock::unix_now;

use crate::auth::{Grant, Permission};
use crate::config::Settings;
use clap::Args;

#[derive(Args)]
pub(crate) struct TokenArgs {
    /// User name
    #[arg(long, value_name = "USER")]
    sub: String,
    /// Permissions of the user, such as 'news=subscribe' or 'chat.*=subscribe,publish' (also: presence,
    /// history) [default: none]
    #[arg(long, value_name = "PATTERN=PERMISSIONS", value_parser = parse_allow)]
    allow: Vec<(String, Vec<Permission>)>,
    /// Channel that sessions join when they begin (repeatable)
    #[arg(long, value_name = "CHANNEL")]
    join: Vec<String>,
    /// Lifetime of the token, such as 1h [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    ttl: Option<Duration>,
    /// HS256 key of auth.keys to sign with, instead of auth.secret
    #[arg(long, value_name = "ID")]
    kid: Option<String>,
    /// Configuration file with the secret; the environment is read as well
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override a key of the configuration
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl TokenArgs {
    /// Signs the token and checks that the server would accept it now.
    pub(crate) fn sign(self, environment: Vec<(String, String)>) -> Result<String, Box<dyn Error>> {
        // No listener is opened, so insecure settings are acceptable.
        let settings = Settings { file: self.config, environment, flags: self.set, insecure: true };
        let auth = settings.resolve()?.auth;
        let mut channels = BTreeMap::<_, Vec<_>>::new();
        for (pattern, permissions) in self.allow {
            channels.entry(pattern).or_default().extend(permissions);
        }
        let now = unix_now();
        let grant = Grant {
            sub: self.sub,
            issued: Some(now),
            expires: self.ttl.map(|ttl| now + ttl),
            channels,
            join: self.join,
        };
        let token = auth.sign(&grant, self.kid.as_deref())?;
        auth.identify(Some(&token), now)?;
        Ok(token)
    }
}

fn parse_allow(text: &str) -> Result<(String, Vec<Permission>), String> {
    let (pattern, names) =
        text.split_once('=').ok_or("expected PATTERN=PERMISSIONS, as in 'news=subscribe'")?;
    let permission = |name: &str| {
        let unknown = |_| format!("`{name}` is not one of subscribe, publish, presence, history");
        name.trim().parse::<Permission>().map_err(unknown)
    };
    let permissions = names.split(',').map(permission).collect::<Result<_, _>>()?;
    Ok((pattern.trim().to_owned(), permissions))
}
