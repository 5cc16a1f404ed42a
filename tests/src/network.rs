//! A network namespace with a link to it that can be cut, made slow, or made to lose packets. Needs root and iproute2, and
//! nftables for the latter.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::raw::Dial;

/// A pair of virtual network cards: one end here, one in a namespace of its own. All of it goes when this is
/// dropped.
#[derive(Debug)]
pub struct NetworkLink {
    namespace: String,
    near: String,
    far: String,
    number: u32,
}

/// Links of four addresses each that fit into 198.18.0.0/15, which is set aside for tests (RFC 2544).
const LINK_COUNT: u32 = 1 << 15;
/// A process makes no more of them.
const LINKS_PER_PROCESS: u32 = 64;

impl Default for NetworkLink {
    fn default() -> Self {
        Self::new()
    }
}

impl NetworkLink {
    /// Lays it.
    ///
    /// # Panics
    /// Without root, or without the command `ip`.
    #[must_use]
    pub fn new() -> Self {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        assert!(
            rustix::process::geteuid().is_root(),
            "cutting a network link needs root: run this test as root"
        );
        let (process, made) = (std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed));
        assert!(made < LINKS_PER_PROCESS, "a process has addresses for {LINKS_PER_PROCESS} links");
        let link = Self {
            namespace: format!("encke-{process}-{made}"),
            near: format!("ek{process}-{made}h"),
            far: format!("ek{process}-{made}t"),
            number: (process * LINKS_PER_PROCESS + made) % LINK_COUNT,
        };
        let Self { namespace, near: here, far: there, .. } = &link;
        ip(&format!("netns add {namespace}"));
        ip(&format!("link add {here} type veth peer name {there} netns {namespace}"));
        ip(&format!("address add {}/30 dev {here}", link.near_address()));
        ip(&format!("link set {here} up"));
        ip(&format!("-n {namespace} address add {}/30 dev {there}", link.address(2)));
        ip(&format!("-n {namespace} link set {there} up"));
        link
    }

    /// The address of this end.
    #[must_use]
    pub fn near_address(&self) -> IpAddr {
        self.address(1)
    }

    /// The address of the other end.
    #[must_use]
    pub fn far_address(&self) -> IpAddr {
        self.address(2)
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
        let [ip, arguments @ ..] = self.wrapper();
        let mut command = Command::new(ip);
        command.args(arguments).arg(program);
        command
    }

    /// Words before a command that have it run in the namespace.
    #[must_use]
    pub fn wrapper(&self) -> [String; 4] {
        ["ip", "netns", "exec", &self.namespace].map(str::to_owned)
    }

    /// The processes that run in the namespace.
    ///
    /// # Panics
    /// When they cannot be listed.
    #[must_use]
    pub fn processes(&self) -> Vec<Pid> {
        let output = Command::new("ip").args(["netns", "pids", &self.namespace]).output();
        let listed =
            String::from_utf8(output.expect("iproute2 is installed").stdout).expect("numbers are text");
        listed.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
    }

    /// Sends all of them a signal.
    pub fn signal(&self, signal: Signal) {
        for process in self.processes() {
            // It may have ended meanwhile.
            let _ = kill_process(process, signal);
        }
    }

    /// Gives sockets that are made in the namespace from here on a receive buffer of so many bytes, which does not grow.
    pub fn set_receive_buffer(&self, bytes: u32) {
        run(self
            .command("sysctl")
            .args(["-w", &format!("net.ipv4.tcp_rmem={} {bytes} {bytes}", bytes.min(4096))]));
    }

    /// Makes it resemble a link that is some hops away, for connections that are made from here on. The ends know each other's
    /// hardware addresses for good: what asks for them, and the answer, does not queue on a slow link or get lost. And each segment of
    /// TCP is a packet of its own: otherwise dozens go from one card to the other as one, and are lost as one.
    ///
    /// # Panics
    /// When the kernel does not tell the addresses.
    pub fn emulate_distance(&self) {
        let Self { namespace, near: here, far: there, .. } = self;
        ip(&format!("link set {here} gso_max_segs 1"));
        ip(&format!("-n {namespace} link set {there} gso_max_segs 1"));
        let hardware = |command: &mut Command, device: &str| {
            let output = command.arg(format!("/sys/class/net/{device}/address")).output();
            let address =
                String::from_utf8(output.expect("there is a cat").stdout).expect("an address is text");
            address.trim().to_owned()
        };
        let (of_here, of_there) =
            (hardware(&mut Command::new("cat"), here), hardware(&mut self.command("cat"), there));
        ip(&format!("neighbour replace {} lladdr {of_there} dev {here} nud permanent", self.address(2)));
        let known = format!("{} lladdr {of_here} dev {there} nud permanent", self.near_address());
        ip(&format!("-n {namespace} neighbour replace {known}"));
    }

    /// From here on the other end is sent so many bytes a second.
    pub fn limit_rate(&self, bytes_per_second: u32) {
        run(Command::new("tc").args(token_bucket(&self.near, bytes_per_second).split(' ')));
    }

    /// From here on neither end is sent more than so many bytes a second.
    pub fn limit_rate_both_ways(&self, bytes_per_second: u32) {
        self.limit_rate(bytes_per_second);
        let arguments = format!("-n {} {}", self.namespace, token_bucket(&self.far, bytes_per_second));
        run(Command::new("tc").args(arguments.split(' ')));
    }

    /// From here on so many per cent of the packets are lost, each way. No sender sees anything of it: they are lost where they
    /// arrive.
    pub fn drop_packets(&self, per_cent: u8) {
        let drop = if per_cent < 100 {
            format!("meta protocol ip numgen random mod 100 < {per_cent} drop")
        } else {
            "meta protocol ip drop".to_owned()
        };
        self.ends().into_iter().for_each(|end| self.filter(end, &drop));
    }

    /// From here on nothing that the other end sends arrives at this one, which is heard there as ever.
    pub fn block_inbound(&self) {
        let [here, _] = self.ends();
        self.filter(here, "meta protocol ip drop");
    }

    /// From here on nothing that this end sends arrives at the other, which is heard here as ever.
    pub fn block_outbound(&self) {
        let [_, there] = self.ends();
        self.filter(there, "meta protocol ip drop");
    }

    /// Does this with what arrives at an end.
    fn filter(&self, (mut nft, device): (Command, &str), rule: &str) {
        let chain = format!("type filter hook ingress device {device} priority 0");
        run(nft.arg(format!(
            "table netdev {0} {{}}; delete table netdev {0}; \
             table netdev {0} {{ chain loss {{ {chain}; {rule}; }}; }}",
            self.namespace
        )));
    }

    /// From here on none is lost.
    pub fn deliver_all_packets(&self) {
        for (mut nft, _) in self.ends() {
            // It need not be there.
            run(nft.arg(format!("table netdev {0} {{}}; delete table netdev {0}", self.namespace)));
        }
    }

    /// The command `nft` at each end, and the card that is there.
    fn ends(&self) -> [(Command, &str); 2] {
        [(Command::new("nft"), &self.near), (self.command("nft"), &self.far)]
    }

    /// From here on nothing gets through, and neither end is told.
    pub fn cut(&self) {
        ip(&format!("-n {} link set {} down", self.namespace, self.far));
    }

    /// Mends it.
    pub fn restore(&self) {
        ip(&format!("-n {} link set {} up", self.namespace, self.far));
    }

    /// Makes the namespace's kernel forget every connection, as if its machine had lost power.
    pub fn forget_connections(&self) {
        run(self.command("ss").args(["-K", "-t"]));
    }
}

impl Drop for NetworkLink {
    fn drop(&mut self) {
        // If it was not lossy, there is none.
        let _ = Command::new("nft").arg(format!("delete table netdev {}", self.namespace)).output();
        // Both cards go with the namespace, once no socket holds it.
        let _ = Command::new("ip").args(["link", "delete", &self.near]).output();
        let _ = Command::new("ip").args(["netns", "delete", &self.namespace]).output();
    }
}

/// Arguments of `tc`: a burst of one packet, and a queue that loses none.
fn token_bucket(device: &str, bytes_per_second: u32) -> String {
    let bits = u64::from(bytes_per_second) * 8;
    format!("qdisc replace dev {device} root tbf rate {bits}bit burst 1600 limit 1000000")
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
        Err(error) => panic!("cannot run {command:?} (are iproute2 and nftables installed?): {error}"),
    }
}
