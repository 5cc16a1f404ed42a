//! Sentinels: they watch a master and its replicas, agree on when it is gone, and make a replica the master. Whoever connects asks them anew where the
//! master is.

use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use redis::aio::SendError;
use redis::{RedisError, cmd};
use tokio_util::sync::CancellationToken;

use super::address::RedisAddress;
use super::connection::{Connection, describe, login, odd};
use super::link::{Link, NotConnected};
use crate::channel::Subscriber;

/// How long one of them may take to answer, from connecting on. Then the next is asked.
const ANSWER: Duration = Duration::from_secs(1);

/// Sentinels, and what they are asked.
#[derive(Clone)]
pub struct Sentinels {
    /// Where they are. Behind TLS all of them are, and the master as well, or none.
    pub addresses: Vec<RedisAddress>,
    /// What they call the master.
    pub master: String,
    /// A user of their access lists; empty: the default one.
    pub user: String,
    /// The user's password; empty: none.
    pub password: String,
}

/// Where a master is, as one of them says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) address: RedisAddress,
    /// Which has said so.
    pub(super) sentinel: usize,
}

impl Sentinels {
    /// Asks one after the other, beginning with this one, until one knows. It may be wrong: it may not have heard yet.
    ///
    /// # Errors
    /// What was wrong with each.
    pub(super) async fn find<S: Subscriber>(
        &self,
        first: usize,
        link: &Link<S>,
    ) -> Result<Found, NotConnected> {
        let mut problems = vec![String::new(); self.addresses.len()];
        for index in 0..self.addresses.len() {
            let sentinel = first.wrapping_add(index) % self.addresses.len();
            let at = &self.addresses[sentinel];
            let answer = link.timeouts.within(ANSWER, self.ask(at, link)).await;
            let problem = match answer {
                Some(Ok(Some(address))) => return Ok(Found { address, sentinel }),
                Some(Ok(None)) => "knows no such master".to_owned(),
                Some(Err(error)) => describe(&error),
                None => format!("no answer within {ANSWER:?}"),
            };
            problems[sentinel] = format!("{at}: {problem}");
        }
        Err(NotConnected::NoMaster(self.master.clone(), problems.join("; ")))
    }

    async fn ask<S: Subscriber>(
        &self,
        sentinel: &RedisAddress,
        link: &Link<S>,
    ) -> Result<Option<RedisAddress>, RedisError> {
        let Link { settings, executor, .. } = link;
        let who = login(&self.user, &self.password);
        let over = CancellationToken::new();
        let nothing = |_| Ok::<_, SendError>(());
        // A connection's own future is large.
        let connection =
            Connection::open(sentinel, settings.tls.as_ref(), &who, over, nothing, executor).boxed().await?;
        let mut commands = connection.commands.clone();
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master);
        let answer: Option<(String, u16)> = question.query_async(&mut commands).await?;
        let Some((host, port)) = answer else { return Ok(None) };
        if host.is_empty() {
            return Err(odd("it says nothing"));
        }
        // What comes by TLS leads to nothing that does not.
        let master = if sentinel.is_tls() { RedisAddress::Tls } else { RedisAddress::Tcp };
        Ok(Some(master(host, port)))
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        write!(f, "{} of {}", self.master, addresses.join(","))
    }
}

impl fmt::Debug for Sentinels {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addresses, master, .. } = self;
        f.debug_struct("Sentinels")
            .field("addresses", addresses)
            .field("master", master)
            .finish_non_exhaustive()
    }
}
