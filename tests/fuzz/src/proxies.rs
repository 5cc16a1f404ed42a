//! Fuzzes client addresses from proxies: PROXY protocol headers, and HTTP headers that contain the client's
//! address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use encke_server::proxies::{ForwardedHeader, Proxies};
use encke_server::testing::fuzzing::{self, ProxyHeaderOutcome};

use crate::pieces::cut;

/// Checks a connection or headers. If the first byte is odd, the input is a connection that must begin with a
/// PROXY protocol header, and the second byte determines how it is split. Otherwise, the lines that follow
/// are HTTP headers.
pub(crate) fn run(input: &[u8]) {
    match input {
        [kind, how, bytes @ ..] if kind % 2 == 1 => check_proxy_header(bytes, *how),
        [kind, text @ ..] => check_forwarded(text, *kind),
        [] => {}
    }
}

/// Checks that the result of parsing a header does not depend on how it is split, and equals the result of a
/// simple parser.
fn check_proxy_header(bytes: &[u8], how: u8) {
    let read = fuzzing::proxy_header(cut(bytes, how));
    assert_eq!(read, fuzzing::proxy_header([bytes]), "the result depends on how the header is split");
    if let ProxyHeaderOutcome::Client(client, length) = read {
        let header = &bytes[..length];
        let expected = if header.starts_with(b"PROXY ") { parse_v1(header) } else { parse_v2(header) };
        assert_eq!(client, expected.expect("a valid header"), "{header:?}");
    }
}

/// Parses version 1. Returns `None` if the header is invalid, and `Some(None)` if it contains no address.
fn parse_v1(header: &[u8]) -> Option<Option<IpAddr>> {
    let line = std::str::from_utf8(header).ok()?.strip_suffix("\r\n")?;
    let words: Vec<_> = line.split(' ').collect();
    match words[..] {
        ["PROXY", "UNKNOWN", ..] => Some(None),
        ["PROXY", family, from, to, from_port, to_port] => {
            let _ports: (u16, u16) = (from_port.parse().ok()?, to_port.parse().ok()?);
            let (from, to): (IpAddr, IpAddr) = (from.parse().ok()?, to.parse().ok()?);
            let is_of_family = |address: IpAddr| address.is_ipv4() == (family == "TCP4");
            (["TCP4", "TCP6"].contains(&family) && is_of_family(from) && is_of_family(to))
                .then_some(Some(from))
        }
        _ => None,
    }
}

/// Parses version 2, like [`parse_v1`].
fn parse_v2(header: &[u8]) -> Option<Option<IpAddr>> {
    let (begin, rest) = header.split_first_chunk::<16>()?;
    let [signature @ .., command, family, _, _] = begin;
    let length = usize::from(u16::from_be_bytes([begin[14], begin[15]]));
    let is_sound = *signature == *b"\r\n\r\n\0\r\nQUIT\n" && rest.len() == length;
    let client: Option<IpAddr> = match (command, family >> 4) {
        (0x20, _) => None,
        (0x21, 1) => Some(Ipv4Addr::from(*rest.first_chunk::<4>()?).into()),
        (0x21, 2) => Some(Ipv6Addr::from(*rest.first_chunk::<16>()?).into()),
        (0x21, 0 | 3) => None,
        _ => return None,
    };
    is_sound.then_some(client)
}

/// Checks that the address appended by a proxy is decisive, regardless of what the client sent before it.
fn check_forwarded(text: &[u8], kind: u8) {
    let header = if kind & 2 == 0 { ForwardedHeader::XForwardedFor } else { ForwardedHeader::Forwarded };
    let trusted = ["10.0.0.0/8".parse().expect("a network")].into();
    let proxies = Proxies { trusted, forwarded: Some(header), proxy_protocol: false };
    let proxy: IpAddr = Ipv4Addr::new(10, 0, 0, 1).into();
    let client: IpAddr = Ipv4Addr::new(192, 0, 2, 7).into();
    let appended = match header {
        ForwardedHeader::XForwardedFor => client.to_string(),
        ForwardedHeader::Forwarded => format!("for={client}"),
    };
    let lines: Vec<_> = text.split(|byte| *byte == b'\n').collect();
    let Some(last) = lines.last() else { return };
    // The proxy may append the address to the last line, or add a separate line.
    for (own, line) in [
        (&lines[..lines.len() - 1], [*last, b", ", appended.as_bytes()].concat()),
        (&lines[..], appended.clone().into_bytes()),
    ] {
        let all: Vec<&[u8]> = own.iter().copied().chain([&line[..]]).collect();
        if std::str::from_utf8(&line).is_ok_and(|line| line.bytes().all(|byte| (0x20..0x7f).contains(&byte)))
            && let Some(found) = fuzzing::client_behind(&proxies, proxy, &all)
        {
            assert_eq!(found, client, "{all:?}");
        }
        if let Some(found) = fuzzing::client_behind(&proxies, client, &all) {
            assert_eq!(found, client, "headers of an untrusted peer were used");
        }
    }
}
