//! The busiest channels, looked for once for all who ask.

use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::channel::Busiest;
use crate::client;

/// What was found is told for so long, from when the search began.
const TOLD_FOR: Duration = Duration::from_secs(5);

/// The latest search. There is one at a time, and one in [`TOLD_FOR`], however many ask: so it costs what it costs, whoever asks how often.
#[derive(Debug, Default)]
pub(crate) struct LatestBusiest(Mutex<Option<Search>>);

#[derive(Debug)]
struct Search {
    began: Timestamp,
    found: Shared<BoxFuture<'static, Arc<Busiest>>>,
    /// Goes on with it when those who asked are gone.
    task: JoinHandle<()>,
}

impl LatestBusiest {
    pub(super) fn get(
        &self,
        client: &client::Context,
    ) -> impl Future<Output = Arc<Busiest>> + Send + use<> + 'static {
        let now = client.timeouts.clock().now();
        let mut latest = self.0.lock();
        if let Some(search) = &*latest
            && (!search.task.is_finished() || now.since(search.began) < TOLD_FOR)
        {
            return search.found.clone();
        }
        let channels = Arc::clone(&client.logs.channels);
        let found = async move { Arc::new(channels.busiest(now).await) }.boxed().shared();
        let task = tokio::spawn(found.clone().map(drop));
        *latest = Some(Search { began: now, found: found.clone(), task });
        found
    }
}
