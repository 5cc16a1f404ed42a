//! A network namespace with a link to it that can be cut. Needs root and iproute2.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::raw::Dial;

/// A pair of virtual network cards: one end here, one in a namespace of its own. All of it goes when this is
/// dropped.
#[derive(Debug)]
pub struct Link {
    namespace: String,
    here: String,
    there: String,
    number: u32,
}

/// Links of four addresses each that fit into 198.18.0.0/15, which is set aside for tests (RFC 2544).
const LINKS: u32 = 1 << 15;
/// A process makes few of them.
const LINKS_A_PROCESS: u32 = 8;

impl Default for Link {
    fn default() -> Self {
        Self::new()
    }
}

impl Link {
    /// Lays it.
    ///
    /// # Panics
    /// Without root, or without the command `ip`.
    #[must_use]
    pub fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        assert!(
            rustix::process::geteuid().is_root(),
            "cutting a network link needs root: run this test as root"
        );
        let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let link = Self {
            namespace: format!("encke-{process}-{made}"),
            here: format!("ek{process}-{made}h"),
            there: format!("ek{process}-{made}t"),
            number: (process * LINKS_A_PROCESS + made) % LINKS,
        };
        let Self { namespace, here, there, .. } = &link;
        ip(&format!("netns add {namespace}"));
        ip(&format!("link add {here} type veth peer name {there} netns {namespace}"));
        ip(&format!("address add {}/30 dev {here}", link.address_here()));
        ip(&format!("link set {here} up"));
        ip(&format!("-n {namespace} address add {}/30 dev {there}", link.address(2)));
        ip(&format!("-n {namespace} link set {there} up"));
        link
    }

    /// The address of this end.
    #[must_use]
    pub fn address_here(&self) -> IpAddr {
        self.address(1)
    }

    fn address(&self, end: u32) -> IpAddr {
        Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + self.number * 4 + end).into()
    }

    /// Connects from the namespace. The socket stays in it, whoever uses it.
    ///
    /// # Panics
    /// When it does not come about.
    #[must_use]
    pub fn connect(&self, address: SocketAddr) -> TcpStream {
        let namespace = File::open(format!("/run/netns/{}", self.namespace)).expect("the namespace is there");
        // A thread of its own, which ends there.
        let thread = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter the namespace");
            Dial::default().connect(address)
        });
        thread.join().expect("the namespace reaches this end")
    }

    /// A command that is run in the namespace.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, program]);
        command
    }

    /// From here on the other end is sent so many bytes a second.
    pub fn limit(&self, bytes_per_second: u32) {
        let bits = u64::from(bytes_per_second) * 8;
        // A burst of one packet, and a queue that loses none.
        let rate = format!("rate {bits}bit burst 1600 limit 1000000");
        run(Command::new("tc").args(format!("qdisc replace dev {} root tbf {rate}", self.here).split(' ')));
    }

    /// From here on nothing gets through, and neither end is told.
    pub fn cut(&self) {
        ip(&format!("-n {} link set {} down", self.namespace, self.there));
    }

    /// Mends it.
    pub fn mend(&self) {
        ip(&format!("-n {} link set {} up", self.namespace, self.there));
    }

    /// Makes the namespace's kernel forget every connection, as if its machine had lost power.
    pub fn forget_connections(&self) {
        run(self.command("ss").args(["-K", "-t"]));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Both cards go with the namespace, once no socket holds it.
        let _ = Command::new("ip").args(["link", "delete", &self.here]).output();
        let _ = Command::new("ip").args(["netns", "delete", &self.namespace]).output();
    }
}

#[track_caller]
fn ip(arguments: &str) {
    run(Command::new("ip").args(arguments.split(' ')));
}

#[track_caller]
fn run(command: &mut Command) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("cannot run {command:?} (is iproute2 installed?): {error}"),
    }
}
