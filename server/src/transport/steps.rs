use std::task::Poll;

/// Runs a connection's steps until one of them is pending or returns an error, which ends the connection.
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
