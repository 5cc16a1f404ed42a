//! Tests that sessions resume over connections that break at random bytes. `ENCKE_SEED=<n>` runs one seed;
//! without it, a fixed seed and a random one run.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use encke_tests::RunningServer;
use encke_tests::raw::{CLOSE, Dial, PING, PONG, RawClient, TEXT, masked};
use encke_tests::waiting::TIMEOUT;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use socket2::SockRef;

const MESSAGES: u64 = 2_000;

/// A client whose connections break after a random number of bytes.
struct ResumingReader {
    address: SocketAddr,
    rng: SmallRng,
    session: String,
    resume: String,
    /// `seq` of the last complete message.
    seq: u64,
    offset: u64,
    connections: u64,
}

/// A socket from which only a limited number of bytes can be read.
struct LimitedSocket {
    stream: TcpStream,
    remaining: usize,
    received: Vec<u8>,
}

/// Error of a connection that has reached the byte at which it breaks.
#[derive(Debug)]
struct ReachedCut;

impl LimitedSocket {
    /// Reads until `take` finds a complete item in the received bytes.
    fn read<T>(&mut self, take: impl Fn(&mut Vec<u8>) -> Option<T>) -> Result<T, ReachedCut> {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(taken) = take(&mut self.received) {
                return Ok(taken);
            }
            let mut buffer = [0; 4096];
            let at_most = self.remaining.min(buffer.len());
            if at_most == 0 {
                return Err(ReachedCut);
            }
            match self.stream.read(&mut buffer[..at_most]) {
                Ok(0) => panic!("the server closed the connection after {:?}", self.received),
                Ok(read) => {
                    self.remaining -= read;
                    self.received.extend(&buffer[..read]);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    assert!(
                        Instant::now() < until,
                        "nothing arrives; {} bytes are buffered",
                        self.received.len()
                    );
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Takes the head of an HTTP response from the received bytes.
fn head(received: &mut Vec<u8>) -> Option<String> {
    let end = received.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = received.drain(..end + 4).collect();
    Some(String::from_utf8(head).expect("heads are text"))
}

/// Takes a frame of at most 64 KiB from the received bytes.
fn frame(received: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let (&[first, length], rest) = received.split_first_chunk()?;
    let (header, length) = match length {
        126 => (4, usize::from(u16::from_be_bytes(*rest.first_chunk()?))),
        length => (2, usize::from(length)),
    };
    let payload = received.get(header..header + length)?.to_vec();
    received.drain(..header + length);
    Some((first, payload))
}

impl ResumingReader {
    /// Subscribes to `news` over a first connection and drops that connection.
    fn begin(server: &RunningServer, seed: u64) -> Self {
        let (mut client, hello) = RawClient::greeted(server.public, "");
        client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
        assert!(client.text_message().contains(r#""offset":0"#));
        Self {
            address: server.public,
            rng: SmallRng::seed_from_u64(seed),
            session: hello.session,
            resume: hello.resume,
            seq: 0,
            offset: 0,
            connections: 0,
        }
    }

    /// Uses one connection until it is cut or the last message arrives.
    fn connection(&mut self) -> Result<(), ReachedCut> {
        self.connections += 1;
        // Cut within the response to the upgrade, within the hello, or later.
        let remaining = match self.rng.random_range(0..10) {
            0 => self.rng.random_range(0..500),
            1 => self.rng.random_range(0..50_000),
            _ => self.rng.random_range(300..4_000),
        };
        let stream = Dial::default().connect(self.address);
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("the socket accepts a timeout");
        let mut connection = LimitedSocket { stream, remaining, received: Vec::new() };
        let result = self.read(&mut connection);
        self.end(connection.stream);
        result
    }

    fn read(&mut self, connection: &mut LimitedSocket) -> Result<(), ReachedCut> {
        let request = format!(
            "GET /ws?resume={}&seq={} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            self.resume, self.seq
        );
        connection.stream.write_all(request.as_bytes()).expect("the server reads");
        let head = connection.read(head)?;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let (first, payload) = connection.read(frame)?;
        let hello: Value = serde_json::from_slice(&payload).expect("the server sends JSON");
        assert_eq!(first, TEXT, "{hello}");
        let hello = &hello["hello"];
        assert_eq!(hello["session"], *self.session, "{hello}");
        assert_eq!(hello["recovered"], true, "{hello}");
        assert_eq!(hello["seq"], self.seq, "{hello}");
        while self.offset < MESSAGES {
            let (first, payload) = connection.read(frame)?;
            match first {
                TEXT => self.message(&payload),
                PING => self.send(connection, &masked(PONG, &payload)),
                CLOSE => panic!("closed: {payload:?}"),
                first => panic!("a frame {first:#04x}"),
            }
            if self.rng.random_ratio(1, 50) {
                let ack = format!(r#"{{"ack":{{"seq":{}}}}}"#, self.seq);
                self.send(connection, &masked(TEXT, ack.as_bytes()));
            }
        }
        Ok(())
    }

    fn message(&mut self, payload: &[u8]) {
        let (seq, offset) = (self.seq + 1, self.offset + 1);
        let expected = format!(
            r#"{{"message":{{"seq":{seq},"channel":"news","offset":{offset},"data":"message {offset}"}}}}"#
        );
        assert_eq!(String::from_utf8_lossy(payload), expected, "on connection {}", self.connections);
        (self.seq, self.offset) = (seq, offset);
    }

    fn send(&mut self, connection: &mut LimitedSocket, frame: &[u8]) {
        connection.stream.write_all(frame).expect("the server reads");
    }

    /// Ends the connection in a random way, sometimes in the middle of a frame from the client.
    fn end(&mut self, mut stream: TcpStream) {
        if self.rng.random_ratio(1, 4) {
            let ack = masked(TEXT, format!(r#"{{"ack":{{"seq":{}}}}}"#, self.seq).as_bytes());
            let part = self.rng.random_range(0..ack.len());
            // The server may have closed the connection by now.
            let _ = stream.write_all(&ack[..part]);
        }
        match self.rng.random_range(0..3) {
            0 => SockRef::from(&stream)
                .set_linger(Some(Duration::ZERO))
                .expect("the socket accepts the option"),
            1 => _ = stream.shutdown(Shutdown::Write),
            _ => {}
        }
    }
}

fn run(seed: u64, max_unacked: u64) {
    let server = RunningServer::with(&[
        &format!("session.max_unacked={max_unacked}"),
        "channel.history_messages=4096",
        "channel.history_bytes=8MiB",
        "limits.commands_per_second=0",
    ]);
    let mut reader = ResumingReader::begin(&server, seed);
    let mut publisher = server.client();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let messages = (1..=MESSAGES).map(|number| format!("\"message {number}\""));
            assert_eq!(publisher.publish("news", messages), MESSAGES);
        });
        let until = Instant::now() + 3 * TIMEOUT;
        while let Err(ReachedCut) = reader.connection() {
            assert!(Instant::now() < until, "{} after {} connections", reader.offset, reader.connections);
        }
    });
    assert_eq!((reader.seq, reader.offset), (MESSAGES, MESSAGES));
    assert!(reader.connections > 10, "{} connections", reader.connections);
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value("encke_gaps_total"), 0.0);
    assert_eq!(metrics.value("encke_resumes_total{outcome=\"new_session\"}"), 0.0);
    assert_eq!(metrics.events("opened", "connect"), 2.0, "the reader's session and the publisher's");
    server.assert_healthy();
}

#[test]
fn every_message_arrives_once_and_in_order_wherever_the_stream_is_cut() {
    let seeds = match std::env::var("ENCKE_SEED") {
        Ok(seed) => vec![seed.parse().expect("ENCKE_SEED is a number")],
        Err(_) => vec![1, rand::random()],
    };
    for seed in seeds {
        println!("ENCKE_SEED={seed}");
        // A ring of 1024 entries is never full. A ring of 16 always is, so that only pongs and acks let more
        // messages through.
        run(seed, 1024);
        run(seed, 16);
    }
}
