use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::feed::Feed;
use super::history::KEPT;

/// As many as are kept, and as many as may come while these are taken.
const MOST_OF_HISTORY: usize = 2 * KEPT;

/// The end of what a viewer is told first.
pub(super) const HISTORY_BEGINS: &str = "event: history\ndata: [";
const HISTORY_ENDS: &str = "]\n\n";

/// What one who watches is sent, in pieces: what the server is, the samples that are kept, and each new one.
///
/// The next piece is asked for when the client has taken most of those before, so what waits for a client is what hyper has of it: 16 KiB
/// and one piece.
#[derive(Debug)]
pub(crate) struct Viewer {
    feed: Arc<Feed>,
    place: usize,
    stage: Stage,
}

/// What comes next.
#[derive(Debug)]
enum Stage {
    /// What the server is, and the beginning of the history.
    About(Bytes),
    /// The first sample of this number or a later one, also of those that come meanwhile. However slowly it is taken, the history has no more than these.
    History { number: u64, left: usize },
    /// The newest sample, once it is of this number or a later one.
    Samples { number: u64 },
}

impl Viewer {
    pub(super) fn new(feed: Arc<Feed>, place: usize, about: Bytes) -> Self {
        Self { feed, place, stage: Stage::About(about) }
    }

    /// The next piece; nothing at the end of all.
    pub(crate) fn poll_piece(&mut self, task: &Context<'_>) -> Poll<Option<Bytes>> {
        let piece = match &mut self.stage {
            Stage::About(about) => {
                let about = mem::take(about);
                self.stage = Stage::History { number: 0, left: MOST_OF_HISTORY };
                about
            }
            Stage::History { number, left } => match self.feed.kept(*number).filter(|_| *left > 0) {
                Some((sample, next)) => {
                    // All but the first follow another.
                    let comma = usize::from(*left == MOST_OF_HISTORY);
                    (*number, *left) = (next, *left - 1);
                    sample.slice(comma..)
                }
                None => {
                    self.stage = Stage::Samples { number: *number };
                    Bytes::from_static(HISTORY_ENDS.as_bytes())
                }
            },
            Stage::Samples { number } => match ready!(self.feed.poll_newest(self.place, *number, task)) {
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
        self.feed.leave(self.place);
    }
}
