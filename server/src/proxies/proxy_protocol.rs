//! The PROXY protocol, versions 1 and 2 (HAProxy, `doc/proxy-protocol.txt`): what a proxy that does not read HTTP says before all else.

use std::io;
use std::net::IpAddr;

use ppp::{v1, v2};
use tokio::net::TcpStream;

/// A header that a proxy has begun, and no byte beyond it.
#[derive(Debug, Default)]
pub(crate) struct ProxyHeader(Vec<u8>);

/// Why a connection has no address of a client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadProxyHeader {
    /// It ended at once, as those of some health checks do.
    #[error("the connection ended before it said anything")]
    Silence,
    #[error("the connection broke off within the header of the PROXY protocol")]
    BrokenOff,
    #[error("the connection does not begin with a header of the PROXY protocol (listen.proxy_protocol)")]
    Missing,
    #[error("a header of the PROXY protocol beyond {LONGEST_V2} bytes")]
    TooLong,
    #[error("a header of the PROXY protocol, version 1, that does not end in CR LF")]
    LineEnd,
    #[error("a bad header of the PROXY protocol, version 1: {0}")]
    Version1(#[from] v1::BinaryParseError),
    #[error("a bad header of the PROXY protocol, version 2: {0}")]
    Version2(#[from] v2::ParseError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The line with its end, as the specification has it.
const LONGEST_V1: usize = 107;
const V1_BEGIN: &[u8] = b"PROXY ";
/// Signature, command, family, and the length of what follows.
const V2_BEGIN: usize = 16;
/// The addresses need 232 bytes at most; the rest has room for what is known of the client's certificate.
const LONGEST_V2: usize = 4096;

/// Reads the header, and nothing after it: the client behind the proxy. `None`: the proxy itself, which looks whether the server is well, or a
/// client without an IP address.
pub(crate) async fn read_source(socket: &TcpStream) -> Result<Option<IpAddr>, BadProxyHeader> {
    let mut header = ProxyHeader::default();
    let mut waiting = [0; LONGEST_V2];
    while !header.is_whole()? {
        // What is only looked at stays there for whoever reads what comes after the header.
        let count = socket.peek(&mut waiting).await?;
        if count == 0 {
            return Err(if header.0.is_empty() {
                BadProxyHeader::Silence
            } else {
                BadProxyHeader::BrokenOff
            });
        }
        let taken = header.take(&waiting[..count])?;
        let read = socket.try_read(&mut waiting[..taken])?;
        debug_assert_eq!(read, taken, "they were there, and nobody else reads");
    }
    header.source()
}

impl ProxyHeader {
    /// Takes what belongs to it of the bytes that follow, and returns how many these are.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<usize, BadProxyHeader> {
        let before = self.0.len();
        self.0.extend_from_slice(bytes);
        // While its length is not known, everything belongs to it.
        if let Some(length) = length(&self.0)? {
            self.0.truncate(length);
        }
        Ok(self.0.len() - before)
    }

    pub(crate) fn is_whole(&self) -> Result<bool, BadProxyHeader> {
        Ok(length(&self.0)? == Some(self.0.len()))
    }

    /// Whom it names. It must be whole.
    pub(crate) fn source(&self) -> Result<Option<IpAddr>, BadProxyHeader> {
        if self.0.starts_with(V1_BEGIN) {
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

/// The length of the header that these bytes begin; `None` while it is not known.
fn length(bytes: &[u8]) -> Result<Option<usize>, BadProxyHeader> {
    let (length, longest) = if begin_alike(bytes, V1_BEGIN) {
        (bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1), LONGEST_V1)
    } else if begin_alike(bytes, v2::PROTOCOL_PREFIX) {
        let following = |length: &[u8; 2]| V2_BEGIN + usize::from(u16::from_be_bytes(*length));
        (bytes.get(V2_BEGIN - 2..).and_then(|rest| rest.first_chunk()).map(following), LONGEST_V2)
    } else {
        return Err(BadProxyHeader::Missing);
    };
    if length.unwrap_or(bytes.len()) > longest { Err(BadProxyHeader::TooLong) } else { Ok(length) }
}

/// As far as both go.
fn begin_alike(one: &[u8], other: &[u8]) -> bool {
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
        // A value that is not known here (PP2_TYPE_UNIQUE_ID).
        let with_more = [&four[..], &[0x05, 0, 3, b'a', b'b', b'c']].concat();
        vec![
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 4660 8000\r\n".to_vec(), Some("192.0.2.7")),
            (b"PROXY TCP6 2001:bad::7 ::1 4660 8000\r\n".to_vec(), Some("2001:bad::7")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), None),
            (version_2(1, 0x11, &four), Some("192.0.2.7")),
            (version_2(1, 0x21, &six), Some("2001:bad::7")),
            (version_2(1, 0x11, &with_more), Some("192.0.2.7")),
            (version_2(1, 0x00, b""), None),
            (version_2(1, 0x31, &[0; 216]), None),
            // A health check of the proxy itself.
            (version_2(0, 0x00, b""), None),
            (version_2(0, 0x11, &four), None),
        ]
    }

    /// Reads as `read_source` does, `step` bytes at a time. Returns what was not taken.
    fn read(bytes: &[u8], step: usize) -> Result<(Option<String>, usize), BadProxyHeader> {
        let mut header = ProxyHeader::default();
        let mut taken = 0;
        while !header.is_whole()? {
            let end = (taken + step).min(bytes.len());
            assert!(taken < end, "a whole header was not taken for one");
            taken += header.take(&bytes[taken..end])?;
        }
        Ok((header.source()?.map(|address| address.to_string()), bytes.len() - taken))
    }

    #[test]
    fn however_it_comes_the_header_is_read_and_nothing_else() {
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
    fn what_is_no_header_is_refused_at_once() {
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
    fn a_header_has_its_bounds() {
        let endless = [&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat();
        assert!(matches!(read(&endless, 10), Err(BadProxyHeader::TooLong)));
        let longest = version_2(1, 0x00, &[0; LONGEST_V2 - V2_BEGIN]);
        assert!(read(&longest, 1000).is_ok());
        let too_long = version_2(1, 0x00, &[0; LONGEST_V2 - V2_BEGIN + 1]);
        assert!(matches!(ProxyHeader::default().take(&too_long[..V2_BEGIN]), Err(BadProxyHeader::TooLong)));
    }
}
