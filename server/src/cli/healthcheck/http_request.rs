use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::SocketAddr;

/// Maximum length of a response. A health response is a single line; a longer response comes from another
/// program.
const MAX_RESPONSE_BYTES: u64 = 16 * 1024;
const MAX_HEADERS: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct HealthResponse {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Sends a GET request for this path and reads the whole response.
pub(super) fn send_request(
    mut stream: impl Read + Write,
    host: SocketAddr,
    path: &str,
) -> Result<HealthResponse> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut bytes = Vec::new();
    stream.take(MAX_RESPONSE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_RESPONSE_BYTES {
        return Err(invalid("the response is too long"));
    }
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<HealthResponse> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head.parse(bytes).map_err(|error| invalid(&format!("the response is not HTTP: {error}")))?;
    let (httparse::Status::Complete(length), Some(status)) = (parsed, head.code) else {
        return Err(ErrorKind::UnexpectedEof.into());
    };
    let body = bytes.get(length..).unwrap_or_default();
    Ok(HealthResponse { status, body: String::from_utf8_lossy(body).into_owned() })
}

fn invalid(problem: &str) -> Error {
    Error::new(ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A fake server that returns a fixed response and records the request.
    struct FakeServer {
        answer: Cursor<Vec<u8>>,
        asked: Vec<u8>,
    }

    impl Read for FakeServer {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            self.answer.read(buffer)
        }
    }

    impl Write for FakeServer {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.asked.write(bytes)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn exchange_with(answer: impl Into<Vec<u8>>) -> (Result<HealthResponse>, String) {
        let mut server = FakeServer { answer: Cursor::new(answer.into()), asked: Vec::new() };
        let host = "127.0.0.1:8001".parse().expect("an address");
        let answer = send_request(&mut server, host, "/healthz");
        (answer, String::from_utf8(server.asked).expect("text"))
    }

    #[test]
    fn status_and_body_are_parsed() {
        for (text, status, body) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n", 200, "ok\n"),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n{\"status\":\"stuck\"}", 503, "{\"status\":\"stuck\"}"),
            ("HTTP/1.0 204 \r\n\r\n", 204, ""),
        ] {
            let (answer, asked) = exchange_with(text);
            assert_eq!(answer.expect("an answer"), HealthResponse { status, body: body.to_owned() });
            assert_eq!(asked, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:8001\r\nConnection: close\r\n\r\n");
        }
    }

    #[test]
    fn invalid_responses_are_errors() {
        let long = ["HTTP/1.1 200 OK\r\n\r\n", &"x".repeat(16 * 1024)].concat();
        let many = ["HTTP/1.1 200 OK\r\n", &"a: b\r\n".repeat(MAX_HEADERS + 1), "\r\n"].concat();
        for (text, kind) in [
            ("", ErrorKind::UnexpectedEof),
            ("HTTP/1.1 200 OK\r\ncontent", ErrorKind::UnexpectedEof),
            ("SSH-2.0-server\r\n", ErrorKind::InvalidData),
            ("\u{15}\u{3}\u{3}", ErrorKind::InvalidData),
            (&long, ErrorKind::InvalidData),
            (&many, ErrorKind::InvalidData),
        ] {
            assert_eq!(exchange_with(text).0.expect_err(text).kind(), kind);
        }
        let longest = ["HTTP/1.1 200 OK\r\n\r\n", &"x".repeat(16 * 1024 - 19)].concat();
        assert_eq!(exchange_with(longest).0.expect("it just fits").status, 200);
    }
}
