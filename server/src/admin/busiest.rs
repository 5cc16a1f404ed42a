//! Cache of the busiest channels, shared by all requests.

use std::sync::Arc;
use std::time::Duration;

use encke_base::locks::Mutex;
use encke_broker::channel::Busiest;
use encke_core::Timestamp;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::task::JoinHandle;

use crate::client;

/// How long a result is reused, counted from the start of its search.
const MAX_AGE: Duration = Duration::from_secs(5);

/// The latest search. At most one runs at a time, and at most one starts per [`MAX_AGE`], so the cost does
/// not depend on the number of requests.
#[derive(Debug, Default)]
pub(crate) struct BusiestCache(Mutex<Option<Search>>);

#[derive(Debug)]
struct Search {
    began: Timestamp,
    found: Shared<BoxFuture<'static, Arc<Busiest>>>,
    /// Task that completes the search even if all requests waiting for it are dropped.
    task: JoinHandle<()>,
}

impl BusiestCache {
    pub(super) fn get(
        &self,
        client: &client::Services,
    ) -> impl Future<Output = Arc<Busiest>> + Send + use<> + 'static {
        let now = client.timeouts.clock().now();
        let mut latest = self.0.lock();
        if let Some(search) = &*latest
            && (!search.task.is_finished() || now.since(search.began) < MAX_AGE)
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
