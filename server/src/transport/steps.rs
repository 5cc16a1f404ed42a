use std::task::Poll;

/// Takes a connection's steps until one has to wait or ends it. `step` says which: pending, or an error.
#[inline]
pub(super) fn poll_steps<E>(mut step: impl FnMut() -> Result<Poll<()>, E>) -> Poll<E> {
    loop {
        match step() {
            Ok(Poll::Ready(())) => {}
            Ok(Poll::Pending) => return Poll::Pending,
            Err(ending) => return Poll::Ready(ending),
        }
    }
}
