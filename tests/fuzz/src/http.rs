//! Fuzzes HTTP requests to the public listener of a server with all its threads.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use encke_server::Server;
use encke_server::config::Settings;
use encke_server::events::NoHooks;

use crate::pieces::cut;

/// Flag in the first byte of the input: use the server that requires tokens. The other bits determine how the
/// request is split.
const REQUIRES_TOKENS: u8 = 0x80;

/// How long to wait for a response: much longer than any response takes, but shorter than all of the server's
/// timeouts for a connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

static OPEN: LazyLock<Server> = LazyLock::new(|| server(&[]));
static GUARDED: LazyLock<Server> =
    LazyLock::new(|| server(&["auth.secret=a secret of more than thirty-two bytes"]));

fn server(flags: &[&str]) -> Server {
    let flags = flags.iter().chain(&[
        "listen.public=127.0.0.1:0",
        "listen.admin=127.0.0.1:0",
        "session.reconnect_window=1s",
        "channel.history_age=1s",
        "limits.handshake_timeout=60s",
    ]);
    let settings = Settings { flags: flags.map(ToString::to_string).collect(), ..Settings::default() };
    let config = settings.resolve().expect("the settings are valid");
    Server::start(config, Box::new(NoHooks), Box::new(|| 0)).expect("the server starts on free ports")
}

/// Sends the input to a server. The first byte determines how the other bytes are split, and which server
/// receives them.
pub(crate) fn run(input: &[u8]) {
    let Some((flags, bytes)) = input.split_first() else { return };
    let requires_tokens = flags & REQUIRES_TOKENS != 0;
    let server = if requires_tokens { &GUARDED } else { &OPEN };
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let parsed = httparse::Request::new(&mut headers).parse(bytes);
    let is_whole = parsed.is_ok_and(|status| status.is_complete());
    let answer = exchange(server, cut(bytes, flags & !REQUIRES_TOKENS), is_whole);
    if requires_tokens {
        assert!(!answer.has_session(), "a session was opened without a token");
    }
    if is_whole {
        let Some(status) = answer.status() else { return assert!(answer.was_reset, "no answer") };
        assert!((100..500).contains(&status), "{status}");
    }
}

/// Sends the pieces and reads the response. If the request is complete, waits for the response before ending
/// the client's stream: hyper treats a client that has ended its stream as closed and sends no response.
fn exchange<'a>(server: &Server, pieces: impl Iterator<Item = &'a [u8]>, is_whole: bool) -> ReceivedAnswer {
    let mut socket = TcpStream::connect(server.public_address()).expect("it listens");
    socket.set_nodelay(true).expect("a TCP socket");
    socket.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a nonzero timeout");
    // The server may already have responded and closed the connection.
    let _ = pieces.map(|piece| socket.write_all(piece)).take_while(Result::is_ok).count();
    let mut answer = ReceivedAnswer::default();
    if is_whole {
        while !answer.has_begun() && answer.read(&mut socket) {}
    }
    // The server may already have ended the connection.
    drop(socket.shutdown(Shutdown::Write));
    while answer.read(&mut socket) {}
    answer
}

/// Everything received on a connection.
#[derive(Default)]
struct ReceivedAnswer {
    bytes: Vec<u8>,
    /// Whether the server reset the connection because it had not read all input. The response may be lost.
    was_reset: bool,
}

impl ReceivedAnswer {
    /// Reads once. Returns whether the client may receive more.
    fn read(&mut self, socket: &mut TcpStream) -> bool {
        let mut piece = [0; 4096];
        match socket.read(&mut piece) {
            Ok(count) => {
                self.bytes.extend(&piece[..count]);
                count > 0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                self.was_reset = true;
                false
            }
            // The alarm signal of libFuzzer may interrupt the call.
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) => panic!("no answer: {error}; received so far: {}", self.bytes.escape_ascii()),
        }
    }

    /// Returns the status of the first response.
    fn status(&self) -> Option<u16> {
        let line = self.bytes.strip_prefix(b"HTTP/1.1 ").or_else(|| self.bytes.strip_prefix(b"HTTP/1.0 "))?;
        str::from_utf8(line.get(..3)?).ok()?.parse().ok()
    }

    /// Returns whether the head of the first response has arrived and, for a WebSocket or an event stream,
    /// the beginning of its content.
    fn has_begun(&self) -> bool {
        let Some(end) = self.bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
        !matches!(self.status(), Some(101 | 200)) || self.bytes.len() > end + 4
    }

    fn has_session(&self) -> bool {
        self.bytes.windows(8).any(|bytes| bytes == b"{\"hello\"")
    }
}
