//! Filling holes, so that what was cancelled does not add up.

use super::{Chunk, Position, Slots};

/// How many words, chunks that are free or pages that are gone are looked at in one sweep: that is two chunks and a bit. One
/// chunk would do on average, while a third of what chunks hold is holes.
const STEPS: usize = 32;

/// The word that is looked at next: that of a chunk, in the order of memory.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    chunk: u32,
    at: u32,
}

impl Slots {
    /// Fills the next few holes, in the order of memory, each with the last timer of its slot. Does only so much at a time.
    ///
    /// `moves` is told an index, where it stands and where it would stand. If that timer is there still, it makes it so and says
    /// yes. The same position twice only asks.
    #[inline(never)]
    pub(in crate::wheel) fn sweep(&mut self, mut moves: impl FnMut(u32, Position, Position) -> bool) {
        for _ in 0..STEPS {
            let Sweep { chunk: number, at } = self.sweep;
            let Some(chunk) = self.pool.find(number).map(|(page, place)| page.get(place)) else {
                let next = self.pool.next_page(number);
                self.sweep = Sweep { chunk: next.unwrap_or(0), at: 0 };
                continue;
            };
            // What is not in use has none.
            if at >= chunk.len() {
                self.sweep = Sweep { chunk: number + 1, at: 0 };
                continue;
            }
            let to = Chunk::position(number, at);
            if moves(chunk.get(at), to, to) {
                self.sweep.at += 1;
                continue;
            }
            let place = chunk.place();
            let (last, from) = self.pop(place);
            self.count_hole_out();
            if moves(last, from, to) {
                self.chunk_mut(number).replace(to, last);
            }
        }
    }
}
