//! The process that listens on an address, as far as `/proc` shows it to this process.

use std::fmt;
use std::net::SocketAddr;

use procfs::net::{TcpState, tcp, tcp6};
use procfs::process::{FDTarget, Process, all_processes};

/// Process that has a listening socket.
#[derive(Debug)]
pub struct ListeningProcess {
    id: i32,
    name: String,
}

impl ListeningProcess {
    /// Finds the process whose listening socket keeps this one from listening on `address`. `None` if `/proc`
    /// does not show the files of that process, for example because another user runs it.
    #[must_use]
    pub fn find(address: SocketAddr) -> Option<Self> {
        let sockets = tcp().into_iter().chain(tcp6()).flatten();
        let conflicting = sockets
            .filter(|socket| socket.state == TcpState::Listen && conflicts(socket.local_address, address));
        let inodes: Vec<u64> = conflicting.map(|socket| socket.inode).collect();
        let process = all_processes().ok()?.flatten().find(|process| has_socket(process, &inodes))?;
        Some(Self { id: process.pid(), name: process.stat().ok()?.comm })
    }
}

fn has_socket(process: &Process, inodes: &[u64]) -> bool {
    let is_listed = |target| matches!(target, FDTarget::Socket(inode) if inodes.contains(&inode));
    process.fd().is_ok_and(|mut files| files.any(|file| file.is_ok_and(|file| is_listed(file.target))))
}

/// Whether two sockets cannot listen on these addresses at the same time. An unspecified address includes all
/// others, and that of IPv6 usually includes those of IPv4.
fn conflicts(one: SocketAddr, other: SocketAddr) -> bool {
    let (ip, other_ip) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port() && (ip == other_ip || ip.is_unspecified() || other_ip.is_unspecified())
}

impl fmt::Display for ListeningProcess {
    /// Writes the process's name, escaped because that process has chosen it, and its id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name.escape_debug(), self.id)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_listening_process_is_found() {
        for address in ["127.0.0.1:0", "0.0.0.0:0"] {
            let listener = TcpListener::bind(address).expect("a free port");
            let taken = SocketAddr::new([127, 0, 0, 1].into(), listener.local_addr().expect("bound").port());
            let found = ListeningProcess::find(taken).expect("this process");
            let expected = format!("(pid {})", std::process::id());
            assert!(found.to_string().ends_with(&expected), "{address}: {found}");
            drop(listener);
            assert!(ListeningProcess::find(taken).is_none(), "{address}");
        }
    }

    #[test]
    fn unspecified_addresses_conflict_with_all_addresses() {
        for (one, other, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "10.0.0.1:80", false),
            ("0.0.0.0:80", "10.0.0.1:80", true),
            ("10.0.0.1:80", "[::]:80", true),
            ("[::ffff:10.0.0.1]:80", "10.0.0.1:80", true),
        ] {
            let [one, other] = [one, other].map(|text| text.parse().expect("an address"));
            assert_eq!(conflicts(one, other), expected, "{one} {other}");
        }
    }
}
