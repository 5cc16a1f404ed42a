//! Sentinels, which monitor a master and its replicas, agree on its failure, and promote a replica. The
//! Sentinels are queried before each connection attempt, because the master can change.

use std::time::Duration;

use futures_util::FutureExt;
use redis::aio::SendError;
use redis::{RedisError, cmd};
use tokio_util::sync::CancellationToken;

use super::address::RedisAddress;
use super::client::RedisClient;
use super::connection::{RedisConnection, login_info};
use super::errors::{ConnectionError, describe, unexpected};
use super::settings::Sentinels;
use crate::channel::Subscriber;

/// How long to wait for a Sentinel, including connection setup, before the next one is queried.
const SENTINEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Location of a master, according to a Sentinel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LocatedMaster {
    pub(super) address: RedisAddress,
    /// Index of the Sentinel that replied.
    pub(super) sentinel: usize,
}

/// Queries one Sentinel after the other, starting with index `first`, until one knows the master. The address
/// may be outdated.
///
/// # Errors
/// [`ConnectionError::NoMaster`], with the problem of each Sentinel.
pub(super) async fn locate_master<S: Subscriber>(
    sentinels: &Sentinels,
    first: usize,
    client: &RedisClient<S>,
) -> Result<LocatedMaster, ConnectionError> {
    let addresses = &sentinels.addresses;
    let mut problems = vec![String::new(); addresses.len()];
    for index in 0..addresses.len() {
        let sentinel = first.wrapping_add(index) % addresses.len();
        let at = &addresses[sentinel];
        let response = client.timeouts.within(SENTINEL_TIMEOUT, query(at, sentinels, client)).await;
        let problem = match response {
            Some(Ok(Some(address))) => return Ok(LocatedMaster { address, sentinel }),
            Some(Ok(None)) => "does not know this master".to_owned(),
            Some(Err(error)) => describe(&error),
            None => format!("no response within {SENTINEL_TIMEOUT:?}"),
        };
        problems[sentinel] = format!("{at}: {problem}");
    }
    Err(ConnectionError::NoMaster(sentinels.master.clone(), problems.join("; ")))
}

async fn query<S: Subscriber>(
    sentinel: &RedisAddress,
    Sentinels { master, user, password, .. }: &Sentinels,
    client: &RedisClient<S>,
) -> Result<Option<RedisAddress>, RedisError> {
    let RedisClient { settings, executor, .. } = client;
    let login = login_info(user, password);
    let (tls, limit) = (settings.tls.as_ref(), settings.max_reply_bytes);
    let closed = CancellationToken::new();
    let discard_pushes = |_| Ok::<_, SendError>(());
    // Box the future, because it is large.
    let connection =
        RedisConnection::open(sentinel, tls, &login, limit, closed, discard_pushes, executor).boxed().await?;
    let mut commands = connection.commands.clone();
    let mut command = cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let response: Option<(String, u16)> = command.query_async(&mut commands).await?;
    let Some((host, port)) = response else { return Ok(None) };
    if host.is_empty() {
        return Err(unexpected("empty address of the master"));
    }
    // An address received over TLS must not lead to an unencrypted connection.
    let master = if sentinel.is_tls() { RedisAddress::Tls } else { RedisAddress::Tcp };
    Ok(Some(master(host, port)))
}
