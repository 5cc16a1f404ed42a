use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::feed::Feed;
use super::history::MAX_SAMPLES;

/// Maximum number of history samples sent to a viewer: the samples in the history, and as many samples that
/// are added while the viewer reads them.
const MAX_HISTORY_SAMPLES: usize = 2 * MAX_SAMPLES;

/// End of the first piece, which starts the history event.
pub(super) const HISTORY_BEGINS: &str = "event: history\ndata: [";
const HISTORY_ENDS: &str = "]\n\n";

/// Stream for one viewer. Its pieces are the server's description, the history, and each new sample.
///
/// hyper polls for the next piece when the client has taken most of the previous pieces. At most 16 KiB and
/// one piece are therefore buffered for each client.
#[derive(Debug)]
pub(crate) struct Viewer {
    feed: Arc<Feed>,
    place: usize,
    stage: ViewerStage,
}

/// Position of a viewer in its stream.
#[derive(Debug)]
enum ViewerStage {
    /// The next piece is the server's description and the beginning of the history.
    About(Bytes),
    /// The next piece is the first history sample with this or a higher number, including samples added in
    /// the meantime. `left` bounds the history even for slow viewers.
    History { number: u64, left: usize },
    /// The next piece is the newest sample, once its number is at least `number`.
    Samples { number: u64 },
}

impl Viewer {
    pub(super) fn new(feed: Arc<Feed>, place: usize, about: Bytes) -> Self {
        Self { feed, place, stage: ViewerStage::About(about) }
    }

    /// Returns the next piece, or `None` at the end of the stream.
    pub(crate) fn poll_piece(&mut self, task: &Context<'_>) -> Poll<Option<Bytes>> {
        let piece = match &mut self.stage {
            ViewerStage::About(about) => {
                let about = mem::take(about);
                self.stage = ViewerStage::History { number: 0, left: MAX_HISTORY_SAMPLES };
                about
            }
            ViewerStage::History { number, left } => {
                match self.feed.first_from(*number).filter(|_| *left > 0) {
                    Some((sample, next)) => {
                        // Keep the leading comma of every sample except the first.
                        let comma = usize::from(*left == MAX_HISTORY_SAMPLES);
                        (*number, *left) = (next, *left - 1);
                        sample.slice(comma..)
                    }
                    None => {
                        self.stage = ViewerStage::Samples { number: *number };
                        Bytes::from_static(HISTORY_ENDS.as_bytes())
                    }
                }
            }
            ViewerStage::Samples { number } => match ready!(self.feed.poll_newest(self.place, *number, task))
            {
                Some((event, next)) => {
                    *number = next;
                    event
                }
                None => return Poll::Ready(None),
            },
        };
        Poll::Ready(Some(piece))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.feed.remove_viewer(self.place);
    }
}
