//! Filling holes, so that what was cancelled does not add up.

use super::{Chunk, Position, Slots};

/// Timers and holes looked at in one sweep: more than a chunk has.
const SWEPT_AT_ONCE: usize = 32;

impl Slots {
    /// Fills the holes of one chunk with the last timers of its slot, and goes on to the next chunk, in the order of memory. Does
    /// only so much at a time.
    ///
    /// `moves` is told an index, where it stands and where it would stand; if that timer is there still, it makes it so and says yes.
    #[inline(never)]
    pub(in crate::wheel) fn sweep(&mut self, mut moves: impl FnMut(u32, Position, Position) -> bool) {
        let number = self.sweep;
        if self.pool.is_beyond(number) {
            self.sweep = 0;
            return;
        }
        let mut at = 0;
        for _ in 0..SWEPT_AT_ONCE {
            // What is not in use has no timers.
            let Some(chunk) = self.pool.find(number).map(|(page, place)| page.get(place)) else { break };
            if at >= chunk.len() {
                break;
            }
            let to = Chunk::position(number, at);
            if moves(chunk.get(at), to, to) {
                at += 1;
                continue;
            }
            let place = chunk.place();
            let (last, from) = self.last(place).iter(1).next().expect("it holds this chunk");
            let filled = moves(last, from, to);
            if filled {
                self.chunk_mut(number).replace(to, last);
            }
            self.take(place, 1, 1);
        }
        let more = self.pool.find(number).is_some_and(|(page, place)| at < page.get(place).len());
        self.sweep = number + u32::from(!more);
    }
}
