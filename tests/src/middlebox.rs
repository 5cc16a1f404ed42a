//! A proxy of HTTP that means well, and lets not everything through.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What it does to upgrades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrades {
    /// Nothing.
    Pass,
    /// It answers them itself, with this status.
    Answer(&'static str),
    /// It passes the request on without the headers that ask for one, which are those of a hop.
    Strip,
    /// It never answers.
    Swallow,
}

/// Takes connections until it is dropped, each for one request.
#[derive(Debug)]
pub struct Middlebox {
    /// Where it does.
    pub address: SocketAddr,
    passes_upgrades: Arc<AtomicBool>,
    dropped: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
struct MiddleboxConfig {
    server: SocketAddr,
    upgrades: Upgrades,
    passes_upgrades: Arc<AtomicBool>,
    /// Answers are passed on when they are whole.
    buffers_responses: bool,
}

impl Middlebox {
    /// A proxy before `server`.
    ///
    /// # Panics
    /// When there is no port for it.
    #[must_use]
    pub fn new(server: SocketAddr, upgrades: Upgrades, buffers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it is bound");
        let (dropped, passes_upgrades) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let ways = MiddleboxConfig { server, upgrades, passes_upgrades: Arc::clone(&passes_upgrades), buffers_responses: buffers };
        let middlebox = Self { address, passes_upgrades, dropped: Arc::clone(&dropped) };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if dropped.load(Ordering::Acquire) {
                    return;
                }
                let ways = ways.clone();
                // Whatever breaks ends the connection.
                std::thread::spawn(move || ways.serve(client));
            }
        });
        middlebox
    }

    /// Upgrades pass from now on.
    pub fn pass_upgrades(&self) {
        self.passes_upgrades.store(true, Ordering::Release);
    }
}

impl Drop for Middlebox {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Release);
        // It waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl MiddleboxConfig {
    fn serve(&self, mut client: TcpStream) -> std::io::Result<()> {
        let Some((head, rest)) = read_head(&mut client)? else { return Ok(()) };
        let is_upgrade = head.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n");
        let upgrades =
            if self.passes_upgrades.load(Ordering::Acquire) { Upgrades::Pass } else { self.upgrades };
        let head = match upgrades {
            Upgrades::Pass if is_upgrade => head,
            Upgrades::Answer(status) if is_upgrade => {
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                return client.write_all(answer.as_bytes());
            }
            Upgrades::Swallow if is_upgrade => {
                client.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            _ => with_connection_close(&head),
        };
        let mut server = TcpStream::connect(self.server)?;
        server.write_all(head.as_bytes())?;
        server.write_all(&rest)?;
        self.pass(client, server, is_upgrade)
    }

    /// Passes on what comes, up to the end of either side.
    fn pass(&self, mut client: TcpStream, mut server: TcpStream, is_upgrade: bool) -> std::io::Result<()> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        if self.buffers_responses && !is_upgrade {
            let mut answer = Vec::new();
            server.read_to_end(&mut answer)?;
            client.write_all(&answer)?;
        } else {
            std::io::copy(&mut server, &mut client)?;
        }
        client.shutdown(Shutdown::Both)
    }
}

/// The head of a request, and what came after it; `None` if the client has left before.
fn read_head(client: &mut TcpStream) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let rest = received.split_off(end + 4);
            return Ok(Some((String::from_utf8_lossy(&received).into_owned(), rest)));
        }
        match client.read(&mut buffer)? {
            0 => return Ok(None),
            read => received.extend(&buffer[..read]),
        }
    }
}

/// A head whose connection is for one request, and stays as it is.
fn with_connection_close(head: &str) -> String {
    let is_hop_by_hop = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.starts_with("connection:") || line.starts_with("upgrade:")
    };
    let lines = head.trim_end().split("\r\n").filter(|line| !is_hop_by_hop(line));
    lines.chain(["connection: close", "", ""]).collect::<Vec<_>>().join("\r\n")
}
