//! Connections to one Redis, for as long as they last.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use redis::aio::SendError;
use redis::{RedisError, cmd};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::address::RedisAddress;
use super::asked::Asked;
use super::connection::{Connection, login};
use super::link::{EvictsKeys, Link, NotConnected, Up};
use super::opening::Opening;
use super::probe::{Info, learn_life, send};
use super::pushes::{Push, Pushes, pushes};
use super::scripts::Scripts;
use crate::channel::{ChannelName, Subscriber, new_epoch};
use crate::timeouts::Sleep;

/// Between two probes. An answer may take as long.
const PROBE: Duration = Duration::from_secs(5);

/// See the [module](self).
pub(super) struct Connected {
    pub(super) up: Up,
    _connections: [Connection; 2],
    pub(super) pushes: Pushes,
    /// Where probes come back.
    pub(super) probe_feed: String,
    pub(super) over: Pin<Box<WaitForCancellationFutureOwned>>,
    pub(super) openings: FuturesUnordered<BoxFuture<'static, Result<Opening, RedisError>>>,
    pub(super) probe: Probe,
    /// Until the next probe.
    pub(super) tick: Sleep,
}

#[derive(Default)]
pub(super) struct Probe {
    /// How many were sent.
    number: u64,
    /// When the last was.
    sent_at: Option<Timestamp>,
    /// The answer to the last, until it is there.
    pub(super) answer: Option<BoxFuture<'static, Result<Info, RedisError>>>,
    /// The last has come back.
    is_back: bool,
}

impl Connected {
    /// Connects to the Redis that is there.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(super) async fn open<S: Subscriber>(
        address: &RedisAddress,
        link: &Link<S>,
    ) -> Result<Self, NotConnected> {
        let Link { settings, executor, .. } = link;
        let tls = settings.tls.as_ref();
        let who = login(&settings.user, &settings.password).set_db(settings.database);
        // Both end with either.
        let over = CancellationToken::new();
        let (sender, pushes) = pushes(over.clone());
        let told = Connection::open(address, tls, &who, over.clone(), sender, executor).await?;
        let mut commands = told.commands.clone();
        let info = Info::ask(&mut commands).await?;
        if !info.is_master {
            return Err(NotConnected::Replica);
        }
        if info.evicts && !settings.allow_eviction {
            return Err(EvictsKeys.into());
        }
        let scripts = Scripts::load(&mut commands, link.channels.namespaces()).await?;
        let nothing_told = |_| Ok::<_, SendError>(());
        let reads = Connection::open(address, tls, &who, over.clone(), nothing_told, executor).await?;
        let up = Up {
            commands,
            reads: reads.commands.clone(),
            scripts: Arc::new(scripts),
            life: Arc::default(),
            over: over.clone(),
        };
        let life = learn_life(&up, &link.keys.life(), &info.replication_id).await?;
        link.channels.metrics().engine.lives(life);
        let probe_feed = link.keys.probe(&new_epoch(&link.entropy));
        let mut subscribe = cmd("SUBSCRIBE");
        subscribe.arg(&probe_feed).arg(link.peers.feeds());
        up.commands.clone().send_packed_command(&subscribe).await?;
        Ok(Self {
            up,
            _connections: [told, reads],
            pushes,
            probe_feed,
            over: Box::pin(over.cancelled_owned()),
            openings: FuturesUnordered::new(),
            probe: Probe { is_back: true, ..Probe::default() },
            tick: link.timeouts.sleep(Duration::ZERO),
        })
    }

    /// Sends a probe. Returns its number.
    ///
    /// # Errors
    /// The last has not come back, or has not been answered.
    pub(super) fn begin_probe<S: Subscriber>(&mut self, link: &Link<S>) -> Result<u64, NotConnected> {
        if !self.probe.is_back || self.probe.answer.is_some() {
            return Err(NotConnected::Silent(PROBE));
        }
        let number = self.probe.number + 1;
        let answer = send(self.up.clone(), self.probe_feed.clone(), number).boxed();
        let sent_at = Some(link.timeouts.clock().now());
        self.probe = Probe { number, sent_at, answer: Some(answer), is_back: false };
        self.tick = link.timeouts.sleep(PROBE);
        Ok(number)
    }

    /// A probe has come back: the last, or one before it.
    pub(super) fn probe_came_back<S: Subscriber>(&mut self, push: &Push, link: &Link<S>) {
        let probe = &mut self.probe;
        if push.payload == probe.number.to_string().as_bytes() && !std::mem::replace(&mut probe.is_back, true)
        {
            let took = probe.sent_at.map(|sent_at| link.timeouts.clock().now().since(sent_at));
            took.into_iter().for_each(|took| link.channels.metrics().engine.probed(took));
        }
    }

    /// Redis need not tell any more what is published there.
    pub(super) fn unsubscribe<S: Subscriber>(&self, channel: &ChannelName, link: &Link<S>) {
        let mut unsubscribe = cmd("UNSUBSCRIBE");
        unsubscribe.arg(link.keys.of(channel.as_str()).feed);
        let mut commands = self.up.commands.clone();
        let asked = async move { commands.send_packed_command(&unsubscribe).await.is_ok() };
        drop(Asked::new(asked, &link.executor));
    }
}
