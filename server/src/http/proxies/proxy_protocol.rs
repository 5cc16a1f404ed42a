//! The PROXY protocol, versions 1 and 2 (HAProxy, `doc/proxy-protocol.txt`): a header that a TCP proxy sends
//! before all other data.

use std::io;
use std::net::IpAddr;

use ppp::{v1, v2};
use tokio::net::TcpStream;

/// Bytes of a header received so far, without any bytes that follow the header.
#[derive(Debug, Default)]
pub(crate) struct ProxyHeader(Vec<u8>);

/// Why the header of a connection is rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadProxyHeader {
    /// The peer closed the connection immediately, as some health checks do.
    #[error("the connection was closed before any data was received")]
    Empty,
    #[error("the connection was closed within the PROXY protocol header")]
    Incomplete,
    #[error("the connection does not begin with a PROXY protocol header (listen.proxy_protocol)")]
    Missing,
    #[error("the PROXY protocol header is too long (maximum: {MAX_V2_BYTES} bytes)")]
    TooLong,
    #[error("the PROXY protocol header (version 1) does not end in CR LF")]
    LineEnd,
    #[error("invalid PROXY protocol header (version 1): {0}")]
    Version1(#[from] v1::BinaryParseError),
    #[error("invalid PROXY protocol header (version 2): {0}")]
    Version2(#[from] v2::ParseError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Maximum length of a version 1 header, including the line end, according to the specification.
const MAX_V1_BYTES: usize = 107;
const V1_PREFIX: &[u8] = b"PROXY ";
/// Length of the fixed part: signature, command, family, and the length of the remainder.
const V2_PREFIX_BYTES: usize = 16;
/// Maximum length of a version 2 header. The addresses need at most 232 bytes; the rest may be details of the
/// client's certificate.
const MAX_V2_BYTES: usize = 4096;

/// Reads the header, but no byte after it, and returns the client's address. Returns `None` if the connection
/// is a health check by the proxy itself, or the client has no IP address.
pub(crate) async fn read_source(socket: &TcpStream) -> Result<Option<IpAddr>, BadProxyHeader> {
    let mut header = ProxyHeader::default();
    let mut buffer = [0; MAX_V2_BYTES];
    while !header.is_complete()? {
        // Peek, to leave the bytes that follow the header in the socket.
        let count = socket.peek(&mut buffer).await?;
        if count == 0 {
            return Err(if header.0.is_empty() { BadProxyHeader::Empty } else { BadProxyHeader::Incomplete });
        }
        let taken = header.take(&buffer[..count])?;
        let read = socket.try_read(&mut buffer[..taken])?;
        debug_assert_eq!(read, taken, "the bytes were peeked, and there is no other reader");
    }
    header.source()
}

impl ProxyHeader {
    /// Appends the bytes that belong to the header, and returns their number.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<usize, BadProxyHeader> {
        let before = self.0.len();
        self.0.extend_from_slice(bytes);
        // Until the length is known, all bytes belong to the header.
        if let Some(length) = length(&self.0)? {
            self.0.truncate(length);
        }
        Ok(self.0.len() - before)
    }

    pub(crate) fn is_complete(&self) -> Result<bool, BadProxyHeader> {
        Ok(length(&self.0)? == Some(self.0.len()))
    }

    /// Returns the client's address. The header must be complete.
    pub(crate) fn source(&self) -> Result<Option<IpAddr>, BadProxyHeader> {
        Ok(self.written_source()?.map(|address| address.to_canonical()))
    }

    fn written_source(&self) -> Result<Option<IpAddr>, BadProxyHeader> {
        if self.0.starts_with(V1_PREFIX) {
            if !self.0.ends_with(b"\r\n") {
                return Err(BadProxyHeader::LineEnd);
            }
            return Ok(match v1::Header::try_from(&self.0[..])?.addresses {
                v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
                v1::Addresses::Tcp6(addresses) => Some(addresses.source_address.into()),
                v1::Addresses::Unknown => None,
            });
        }
        let header = v2::Header::try_from(&self.0[..])?;
        Ok(match header.addresses {
            _ if header.command == v2::Command::Local => None,
            v2::Addresses::IPv4(addresses) => Some(addresses.source_address.into()),
            v2::Addresses::IPv6(addresses) => Some(addresses.source_address.into()),
            v2::Addresses::Unspecified | v2::Addresses::Unix(_) => None,
        })
    }
}

/// Returns the length of the header that begins with these bytes, or `None` if it is not known yet.
fn length(bytes: &[u8]) -> Result<Option<usize>, BadProxyHeader> {
    let (length, longest) = if share_prefix(bytes, V1_PREFIX) {
        (bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1), MAX_V1_BYTES)
    } else if share_prefix(bytes, v2::PROTOCOL_PREFIX) {
        let following = |length: &[u8; 2]| V2_PREFIX_BYTES + usize::from(u16::from_be_bytes(*length));
        (bytes.get(V2_PREFIX_BYTES - 2..).and_then(|rest| rest.first_chunk()).map(following), MAX_V2_BYTES)
    } else {
        return Err(BadProxyHeader::Missing);
    };
    if length.unwrap_or(bytes.len()) > longest { Err(BadProxyHeader::TooLong) } else { Ok(length) }
}

/// Whether one of the slices is a prefix of the other.
fn share_prefix(one: &[u8], other: &[u8]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version_2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).expect("a short body").to_be_bytes();
        [v2::PROTOCOL_PREFIX, &[0x20 | command, family], &length, body].concat()
    }

    fn whole() -> Vec<(Vec<u8>, Option<&'static str>)> {
        let four = [192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x34, 0x1f, 0x40];
        let six =
            [&[0x20, 0x01, 0x0b, 0xad][..], &[0; 11], &[7], &[0; 16], &[0x12, 0x34, 0x1f, 0x40]].concat();
        // A header with a field that the server ignores (PP2_TYPE_UNIQUE_ID).
        let with_more = [&four[..], &[0x05, 0, 3, b'a', b'b', b'c']].concat();
        vec![
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 4660 8000\r\n".to_vec(), Some("192.0.2.7")),
            (b"PROXY TCP6 2001:bad::7 ::1 4660 8000\r\n".to_vec(), Some("2001:bad::7")),
            (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 4660 8000\r\n".to_vec(), Some("192.0.2.7")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), None),
            (version_2(1, 0x11, &four), Some("192.0.2.7")),
            (version_2(1, 0x21, &six), Some("2001:bad::7")),
            (version_2(1, 0x11, &with_more), Some("192.0.2.7")),
            (version_2(1, 0x00, b""), None),
            (version_2(1, 0x31, &[0; 216]), None),
            // A health check by the proxy itself.
            (version_2(0, 0x00, b""), None),
            (version_2(0, 0x11, &four), None),
        ]
    }

    /// Reads like `read_source`, `step` bytes at a time. Returns the number of bytes after the header.
    fn read(bytes: &[u8], step: usize) -> Result<(Option<String>, usize), BadProxyHeader> {
        let mut header = ProxyHeader::default();
        let mut taken = 0;
        while !header.is_complete()? {
            let end = (taken + step).min(bytes.len());
            assert!(taken < end, "a complete header was not recognized");
            taken += header.take(&bytes[taken..end])?;
        }
        Ok((header.source()?.map(|address| address.to_string()), bytes.len() - taken))
    }

    #[test]
    fn only_the_header_is_read_whatever_the_chunk_size() {
        for (header, expected) in whole() {
            let after = b"GET /ws HTTP/1.1\r\n";
            let bytes = [&header[..], after].concat();
            for step in 1..bytes.len() {
                let (source, left) = read(&bytes, step).expect("a good header");
                assert_eq!(
                    (source.as_deref(), left),
                    (expected, after.len()),
                    "{header:?}, {step} at a time"
                );
            }
        }
    }

    #[test]
    fn invalid_headers_are_rejected_at_once() {
        for bytes in [&b"G"[..], b"PROXX", b"\r\nGET", b"\x16\x03\x01", b"\0"] {
            assert!(matches!(ProxyHeader::default().take(bytes), Err(BadProxyHeader::Missing)), "{bytes:?}");
        }
        for bytes in [&b"PROXY TCP4 192.0.2.7\r\n"[..], b"PROXY TCP4 a b c d\r\n"] {
            assert!(matches!(read(bytes, 7), Err(BadProxyHeader::Version1(_))), "{bytes:?}");
        }
        for bytes in [&b"PROXY UNKNOWN \n"[..], b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\n"] {
            assert!(matches!(read(bytes, 7), Err(BadProxyHeader::LineEnd)), "{bytes:?}");
        }
        let short = version_2(1, 0x11, &[1, 2, 3]);
        let other_version = [v2::PROTOCOL_PREFIX, &[0x31, 0x11, 0, 0]].concat();
        for bytes in [short, other_version] {
            assert!(matches!(read(&bytes, 7), Err(BadProxyHeader::Version2(_))), "{bytes:?}");
        }
    }

    #[test]
    fn header_size_is_limited() {
        let endless = [&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat();
        assert!(matches!(read(&endless, 10), Err(BadProxyHeader::TooLong)));
        let longest = version_2(1, 0x00, &[0; MAX_V2_BYTES - V2_PREFIX_BYTES]);
        assert!(read(&longest, 1000).is_ok());
        let too_long = version_2(1, 0x00, &[0; MAX_V2_BYTES - V2_PREFIX_BYTES + 1]);
        assert!(matches!(
            ProxyHeader::default().take(&too_long[..V2_PREFIX_BYTES]),
            Err(BadProxyHeader::TooLong)
        ));
    }
}
