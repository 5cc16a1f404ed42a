use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::SocketAddr;

/// Health is said in a line; what is longer comes from something else.
const LONGEST_ANSWER: u64 = 16 * 1024;
const MOST_HEADERS: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Asks for this path, and reads all of the answer.
pub(super) fn ask(mut stream: impl Read + Write, host: SocketAddr, path: &str) -> Result<Answer> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut bytes = Vec::new();
    stream.take(LONGEST_ANSWER + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_ANSWER {
        return Err(invalid("the answer is too long"));
    }
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<Answer> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head.parse(bytes).map_err(|error| invalid(&format!("the answer is no HTTP: {error}")))?;
    let (httparse::Status::Complete(length), Some(status)) = (parsed, head.code) else {
        return Err(ErrorKind::UnexpectedEof.into());
    };
    let body = bytes.get(length..).unwrap_or_default();
    Ok(Answer { status, body: String::from_utf8_lossy(body).into_owned() })
}

fn invalid(problem: &str) -> Error {
    Error::new(ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A server that answers so, whatever it is asked, and what it was asked.
    struct Server {
        answer: Cursor<Vec<u8>>,
        asked: Vec<u8>,
    }

    impl Read for Server {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            self.answer.read(buffer)
        }
    }

    impl Write for Server {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.asked.write(bytes)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn answered(answer: impl Into<Vec<u8>>) -> (Result<Answer>, String) {
        let mut server = Server { answer: Cursor::new(answer.into()), asked: Vec::new() };
        let host = "127.0.0.1:8001".parse().expect("an address");
        let answer = ask(&mut server, host, "/healthz");
        (answer, String::from_utf8(server.asked).expect("text"))
    }

    #[test]
    fn an_answer_is_its_status_and_its_body() {
        for (text, status, body) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n", 200, "ok\n"),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n{\"status\":\"stuck\"}", 503, "{\"status\":\"stuck\"}"),
            ("HTTP/1.0 204 \r\n\r\n", 204, ""),
        ] {
            let (answer, asked) = answered(text);
            assert_eq!(answer.expect("an answer"), Answer { status, body: body.to_owned() });
            assert_eq!(asked, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:8001\r\nConnection: close\r\n\r\n");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let long = ["HTTP/1.1 200 OK\r\n\r\n", &"x".repeat(16 * 1024)].concat();
        let many = ["HTTP/1.1 200 OK\r\n", &"a: b\r\n".repeat(MOST_HEADERS + 1), "\r\n"].concat();
        for (text, kind) in [
            ("", ErrorKind::UnexpectedEof),
            ("HTTP/1.1 200 OK\r\ncontent", ErrorKind::UnexpectedEof),
            ("SSH-2.0-server\r\n", ErrorKind::InvalidData),
            ("\u{15}\u{3}\u{3}", ErrorKind::InvalidData),
            (&long, ErrorKind::InvalidData),
            (&many, ErrorKind::InvalidData),
        ] {
            assert_eq!(answered(text).0.expect_err(text).kind(), kind);
        }
        let longest = ["HTTP/1.1 200 OK\r\n\r\n", &"x".repeat(16 * 1024 - 19)].concat();
        assert_eq!(answered(longest).0.expect("it just fits").status, 200);
    }
}
