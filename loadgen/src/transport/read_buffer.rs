//! The buffer into which all tasks of a thread read, one after the other.

use std::cell::Cell;

const BYTES: usize = 64 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends the thread's buffer. Within it, who asks again gets a new one.
pub(crate) fn lend<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut buffer = BUFFER.take();
    buffer.resize(BYTES, 0);
    let result = work(&mut buffer);
    BUFFER.set(buffer);
    result
}
