#![expect(unsafe_code, reason = "the crates that provide this call require a borrowed descriptor")]

use std::os::fd::RawFd;

/// Whether the kernel holds unread bytes of the socket with this descriptor, according to FIONREAD.
///
/// This takes a number because the socket may be owned by a future, such as a TLS handshake. If the number
/// belongs to another file by now, the result is about that file; nothing is changed.
#[must_use]
pub fn has_unread_bytes(descriptor: RawFd) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one `int`, and fails with EBADF or ENOTTY if the number is not that of a socket.
    let result = unsafe { libc::ioctl(descriptor, libc::FIONREAD, &raw mut bytes) };
    result == 0 && bytes > 0
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_are_unread_until_they_are_read() {
        let (mut here, mut there) = UnixStream::pair().expect("two sockets");
        assert!(!has_unread_bytes(here.as_raw_fd()));
        there.write_all(b"x").expect("there is room");
        assert!(has_unread_bytes(here.as_raw_fd()));
        here.read_exact(&mut [0]).expect("a byte");
        drop(there);
        assert!(!has_unread_bytes(here.as_raw_fd()), "the end of the stream is not a byte");
        assert!(!has_unread_bytes(-1));
    }
}
