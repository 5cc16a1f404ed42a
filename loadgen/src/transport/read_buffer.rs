//! Read buffer shared by all tasks of a thread.

use std::cell::Cell;

const BYTES: usize = 64 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Passes the thread's buffer to `work`. A nested call gets a separate buffer.
pub(crate) fn lend<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut buffer = BUFFER.take();
    buffer.resize(BYTES, 0);
    let result = work(&mut buffer);
    BUFFER.set(buffer);
    result
}
