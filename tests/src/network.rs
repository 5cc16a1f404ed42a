//! A network namespace and a link to it that can be cut, slowed down, or made to lose packets. Needs root and
//! iproute2; packet loss needs nftables.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::raw::Dial;

/// Pair of virtual network interfaces: the near end is in the test's own namespace, the far end in a new one.
/// Both are removed when this is dropped.
#[derive(Debug)]
pub struct NetworkLink {
    namespace: String,
    near: String,
    far: String,
    number: u32,
}

/// Number of four-address links that fit into 198.18.0.0/15, which is reserved for tests (RFC 2544).
const LINK_COUNT: u32 = 1 << 15;
/// Number of links that one process may create.
const LINKS_PER_PROCESS: u32 = 64;

impl Default for NetworkLink {
    fn default() -> Self {
        Self::new()
    }
}

impl NetworkLink {
    /// Creates the link.
    ///
    /// # Panics
    /// Panics without root or without the `ip` command.
    #[must_use]
    pub fn new() -> Self {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        assert!(
            rustix::process::geteuid().is_root(),
            "creating a network link needs root: run this test as root"
        );
        let (process, index) = (std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed));
        assert!(index < LINKS_PER_PROCESS, "a process has addresses for only {LINKS_PER_PROCESS} links");
        let link = Self {
            namespace: format!("encke-{process}-{index}"),
            near: format!("ek{process}-{index}h"),
            far: format!("ek{process}-{index}t"),
            number: (process * LINKS_PER_PROCESS + index) % LINK_COUNT,
        };
        let Self { namespace, near, far, .. } = &link;
        ip(&format!("netns add {namespace}"));
        ip(&format!("link add {near} type veth peer name {far} netns {namespace}"));
        ip(&format!("address add {}/30 dev {near}", link.near_address()));
        ip(&format!("link set {near} up"));
        ip(&format!("-n {namespace} address add {}/30 dev {far}", link.address(2)));
        ip(&format!("-n {namespace} link set {far} up"));
        link
    }

    /// Returns the address of the near end.
    #[must_use]
    pub fn near_address(&self) -> IpAddr {
        self.address(1)
    }

    /// Returns the address of the far end.
    #[must_use]
    pub fn far_address(&self) -> IpAddr {
        self.address(2)
    }

    fn address(&self, end: u32) -> IpAddr {
        Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + self.number * 4 + end).into()
    }

    /// Connects from the namespace. The socket stays in the namespace, regardless of which thread uses it.
    ///
    /// # Panics
    /// Panics if the connection cannot be established.
    #[must_use]
    pub fn connect(&self, address: SocketAddr) -> TcpStream {
        let namespace = File::open(format!("/run/netns/{}", self.namespace)).expect("the namespace exists");
        // Use a separate thread that exits after connecting: a thread stays in the namespace it has entered.
        let thread = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter the namespace");
            Dial::default().connect(address)
        });
        thread.join().expect("the connecting thread does not panic")
    }

    /// Returns a command that runs in the namespace.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let [ip, arguments @ ..] = self.wrapper();
        let mut command = Command::new(ip);
        command.args(arguments).arg(program);
        command
    }

    /// Returns the prefix that makes a command run in the namespace.
    #[must_use]
    pub fn wrapper(&self) -> [String; 4] {
        ["ip", "netns", "exec", &self.namespace].map(str::to_owned)
    }

    /// Returns the processes that run in the namespace.
    ///
    /// # Panics
    /// Panics if they cannot be listed.
    #[must_use]
    pub fn processes(&self) -> Vec<Pid> {
        let output = Command::new("ip").args(["netns", "pids", &self.namespace]).output();
        let listed =
            String::from_utf8(output.expect("iproute2 is installed").stdout).expect("process ids are text");
        listed.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
    }

    /// Sends a signal to all processes in the namespace.
    pub fn signal(&self, signal: Signal) {
        for process in self.processes() {
            // The process may have exited in the meantime.
            let _ = kill_process(process, signal);
        }
    }

    /// Limits the receive buffer of sockets created later in the namespace to `bytes`, without automatic
    /// growth.
    pub fn set_receive_buffer(&self, bytes: u32) {
        run(self
            .command("sysctl")
            .args(["-w", &format!("net.ipv4.tcp_rmem={} {bytes} {bytes}", bytes.min(4096))]));
    }

    /// Makes the link resemble a path of several hops, for connections that are established later. The ends
    /// get permanent entries for each other's hardware addresses, so that address resolution neither queues
    /// on a slow link nor gets lost. Each TCP segment becomes a separate packet; otherwise dozens of segments
    /// travel between the interfaces as one packet and are lost together.
    ///
    /// # Panics
    /// Panics if the kernel does not report the addresses.
    pub fn emulate_distance(&self) {
        let Self { namespace, near, far, .. } = self;
        ip(&format!("link set {near} gso_max_segs 1"));
        ip(&format!("-n {namespace} link set {far} gso_max_segs 1"));
        let hardware = |command: &mut Command, device: &str| {
            let output = command.arg(format!("/sys/class/net/{device}/address")).output();
            let address = String::from_utf8(output.expect("cat can be run").stdout)
                .expect("a hardware address is text");
            address.trim().to_owned()
        };
        let (near_hardware, far_hardware) =
            (hardware(&mut Command::new("cat"), near), hardware(&mut self.command("cat"), far));
        ip(&format!("neighbour replace {} lladdr {far_hardware} dev {near} nud permanent", self.address(2)));
        let neighbour = format!("{} lladdr {near_hardware} dev {far} nud permanent", self.near_address());
        ip(&format!("-n {namespace} neighbour replace {neighbour}"));
    }

    /// Limits the rate towards the far end.
    pub fn limit_rate(&self, bytes_per_second: u32) {
        run(Command::new("tc").args(token_bucket(&self.near, bytes_per_second).split(' ')));
    }

    /// Limits the rate in both directions.
    pub fn limit_rate_both_ways(&self, bytes_per_second: u32) {
        self.limit_rate(bytes_per_second);
        let arguments = format!("-n {} {}", self.namespace, token_bucket(&self.far, bytes_per_second));
        run(Command::new("tc").args(arguments.split(' ')));
    }

    /// Drops this percentage of the packets in each direction. They are dropped on arrival, so no sender
    /// notices.
    pub fn drop_packets(&self, per_cent: u8) {
        let drop = if per_cent < 100 {
            format!("meta protocol ip numgen random mod 100 < {per_cent} drop")
        } else {
            "meta protocol ip drop".to_owned()
        };
        self.ends().into_iter().for_each(|end| self.filter(end, &drop));
    }

    /// Drops everything that arrives at the near end. The far end still receives.
    pub fn block_inbound(&self) {
        let [near, _] = self.ends();
        self.filter(near, "meta protocol ip drop");
    }

    /// Drops everything that arrives at the far end. The near end still receives.
    pub fn block_outbound(&self) {
        let [_, far] = self.ends();
        self.filter(far, "meta protocol ip drop");
    }

    /// Applies a rule to the packets that arrive at one end.
    fn filter(&self, (mut nft, device): (Command, &str), rule: &str) {
        let chain = format!("type filter hook ingress device {device} priority 0");
        run(nft.arg(format!(
            "table netdev {0} {{}}; delete table netdev {0}; \
             table netdev {0} {{ chain loss {{ {chain}; {rule}; }}; }}",
            self.namespace
        )));
    }

    /// Removes all packet filters.
    pub fn deliver_all_packets(&self) {
        for (mut nft, _) in self.ends() {
            // The first statement creates the table if it does not exist, so that deleting it cannot fail.
            run(nft.arg(format!("table netdev {0} {{}}; delete table netdev {0}", self.namespace)));
        }
    }

    /// Returns the `nft` command and the interface of each end.
    fn ends(&self) -> [(Command, &str); 2] {
        [(Command::new("nft"), &self.near), (self.command("nft"), &self.far)]
    }

    /// Cuts the link. Neither end is notified.
    pub fn cut(&self) {
        ip(&format!("-n {} link set {} down", self.namespace, self.far));
    }

    /// Restores the link after [`cut`](Self::cut).
    pub fn restore(&self) {
        ip(&format!("-n {} link set {} up", self.namespace, self.far));
    }

    /// Makes the namespace's kernel forget every TCP connection, as if its machine had lost power.
    pub fn forget_connections(&self) {
        run(self.command("ss").args(["-K", "-t"]));
    }
}

impl Drop for NetworkLink {
    fn drop(&mut self) {
        // The table exists only if packets were filtered.
        let _ = Command::new("nft").arg(format!("delete table netdev {}", self.namespace)).output();
        // Deleting the near interface removes its peer. The namespace itself is freed once no socket uses it.
        let _ = Command::new("ip").args(["link", "delete", &self.near]).output();
        let _ = Command::new("ip").args(["netns", "delete", &self.namespace]).output();
    }
}

/// Arguments of `tc` for a token bucket: a burst of one packet, and a queue long enough to lose none.
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
