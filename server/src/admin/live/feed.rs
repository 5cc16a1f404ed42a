use std::sync::{Arc, Weak};

use bytes::Bytes;
use encke_base::locks::Mutex;
use encke_timeouts::{RingView, RingWatch, Timeouts};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;

use super::history::{History, MAX_SAMPLES};

/// Maximum number of history samples sent to a viewer: the samples in the history, and as many samples that
/// are added while the viewer reads them.
const MAX_HISTORY_SAMPLES: usize = 2 * MAX_SAMPLES;

/// End of the first piece, which starts the history event.
pub(super) const HISTORY_BEGINS: &str = "event: history\ndata: [";
const HISTORY_ENDS: &str = "]\n\n";

/// The samples, shared by all viewers.
///
/// Viewers pull samples and have no queues: a slow viewer skips to the newest sample.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    state: watch::Sender<FeedState>,
    /// Makes the wheel report the contents of its slots while there are viewers, which share it.
    ring_watch: Mutex<Weak<RingWatch>>,
}

#[derive(Debug, Default)]
struct FeedState {
    history: History,
    /// Event with the newest sample, the same for all viewers.
    newest: Bytes,
    /// Whether the stream has ended: the server is draining, and no more samples are taken.
    is_over: bool,
}

impl Feed {
    /// Returns the contents of the wheel's slots, or `None` if there are no viewers or the wheel has not
    /// reported the contents yet.
    pub(super) fn rings(&self) -> Option<Vec<RingView>> {
        let watch = self.ring_watch.lock().upgrade();
        Some(watch?.rings()?.rings)
    }

    #[cfg(test)]
    pub(super) fn is_watched(&self) -> bool {
        self.ring_watch.lock().strong_count() > 0
    }

    /// Adds a sample: its encoded form for the history, and the event for viewers.
    pub(super) fn add(&self, kept: Bytes, event: Bytes) {
        self.state.send_modify(|state| {
            state.history.push(kept);
            state.newest = event;
        });
    }

    /// Ends all streams, including those that are opened later.
    pub(super) fn end(&self) {
        self.state.send_modify(|state| state.is_over = true);
    }

    /// Returns the stream for one viewer: `about`, the history, and each new sample.
    ///
    /// hyper polls for the next piece when the client has taken most of the previous pieces. At most 16 KiB
    /// and one piece are therefore buffered for each client.
    pub(super) fn view(
        &self,
        about: Bytes,
        timeouts: &Arc<Timeouts>,
    ) -> impl Stream<Item = Bytes> + Send + use<> + 'static {
        let viewer = Viewer {
            state: self.state.subscribe(),
            _ring_watch: self.watch_rings(timeouts),
            stage: ViewerStage::About(about),
        };
        unfold(viewer, async |mut viewer| viewer.next_piece().await.map(|piece| (piece, viewer)))
    }

    fn watch_rings(&self, timeouts: &Arc<Timeouts>) -> Arc<RingWatch> {
        let mut watch = self.ring_watch.lock();
        watch.upgrade().unwrap_or_else(|| {
            let new = Arc::new(RingWatch::new(Arc::clone(timeouts)));
            *watch = Arc::downgrade(&new);
            new
        })
    }
}

/// Position of a viewer in its stream.
enum ViewerStage {
    /// The next piece is the server's description and the beginning of the history.
    About(Bytes),
    /// The next piece is the first history sample with this or a higher number, including samples added in
    /// the meantime. `left` bounds the history even for slow viewers.
    History { number: u64, left: usize },
    /// The next piece is the newest sample, once its number is at least `number`.
    Samples { number: u64 },
}

struct Viewer {
    state: watch::Receiver<FeedState>,
    _ring_watch: Arc<RingWatch>,
    stage: ViewerStage,
}

impl Viewer {
    /// Returns the next piece, or `None` at the end of the stream.
    async fn next_piece(&mut self) -> Option<Bytes> {
        let (piece, stage) = match &self.stage {
            ViewerStage::About(about) => {
                (about.clone(), ViewerStage::History { number: 0, left: MAX_HISTORY_SAMPLES })
            }
            &ViewerStage::History { number, left } => {
                let state = self.state.borrow();
                match state.history.first_from(number).filter(|_| left > 0 && !state.is_over) {
                    Some((number, sample)) => {
                        // Keep the leading comma of every sample except the first.
                        let comma = usize::from(left == MAX_HISTORY_SAMPLES);
                        (sample.slice(comma..), ViewerStage::History { number: number + 1, left: left - 1 })
                    }
                    None => (Bytes::from_static(HISTORY_ENDS.as_bytes()), ViewerStage::Samples { number }),
                }
            }
            &ViewerStage::Samples { number } => {
                let is_due = |state: &FeedState| state.is_over || state.history.next > number;
                let state = self.state.wait_for(is_due).await.ok().filter(|state| !state.is_over)?;
                (state.newest.clone(), ViewerStage::Samples { number: state.history.next })
            }
        };
        self.stage = stage;
        Some(piece)
    }
}
