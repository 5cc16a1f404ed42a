//! A network namespace and a link to it that can be cut, slowed down, or made to lose packets. Needs root and
//! iproute2; packet loss needs nftables.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::connection::Dial;
use crate::process::wrapped;

/// Pair of virtual network interfaces: the near end is in the test's own namespace, the far end in a new one.
/// Both are removed when this is dropped.
#[derive(Debug)]
pub struct NetworkLink {
    namespace: String,
    near: String,
    far: String,
    number: u32,
}

/// Hardware addresses of the ends, chosen by us (their second bit says so). They need not be unique beyond the
/// link.
const NEAR_HARDWARE: &str = "02:00:00:00:00:01";
const FAR_HARDWARE: &str = "02:00:00:00:00:02";
/// Number of four-address links that fit into 198.18.0.0/15, which is reserved for tests (RFC 2544).
const LINK_COUNT: u32 = 1 << 15;

/// Rule of nftables.
const DROP_ALL: &str = "meta protocol ip drop";

impl Default for NetworkLink {
    fn default() -> Self {
        Self::new()
    }
}

impl NetworkLink {
    pub fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "creating a network link needs root: run this test as root"
        );
        let link = Self::reserve();
        let Self { namespace, near, far, .. } = &link;
        ip(&format!(
            "link add {near} address {NEAR_HARDWARE} type veth \
             peer name {far} address {FAR_HARDWARE} netns {namespace}"
        ));
        ip(&format!("address add {}/30 dev {near}", link.near_address()));
        ip(&format!("link set {near} up"));
        ip(&format!("-n {namespace} address add {}/30 dev {far}", link.address(2)));
        ip(&format!("-n {namespace} link set {far} up"));
        link
    }

    /// Creates the namespace of a link whose number, and so whose names and addresses, no other link has, even of
    /// another test run: the kernel refuses a second namespace with the same name.
    fn reserve() -> Self {
        let mut last_error = String::new();
        for _ in 0..100 {
            let number = rand::random_range(0..LINK_COUNT);
            let [namespace, near, far] =
                ["encke-", "ek-near-", "ek-far-"].map(|name| format!("{name}{number}"));
            match try_to_run(Command::new("ip").args(["netns", "add", &namespace])) {
                Ok(()) => return Self { namespace, near, far, number },
                Err(error) => last_error = error,
            }
        }
        panic!("{last_error}");
    }

    pub fn near_address(&self) -> IpAddr {
        self.address(1)
    }

    pub fn far_address(&self) -> IpAddr {
        self.address(2)
    }

    fn address(&self, end: u32) -> IpAddr {
        Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + self.number * 4 + end).into()
    }

    /// Connects from the namespace. The socket stays in the namespace, regardless of which thread uses it.
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

    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        wrapped(&self.wrapper(), program)
    }

    /// Returns the prefix that makes a command run in the namespace.
    pub fn wrapper(&self) -> [String; 4] {
        ["ip", "netns", "exec", &self.namespace].map(str::to_owned)
    }

    pub fn processes(&self) -> Vec<Pid> {
        let output = Command::new("ip").args(["netns", "pids", &self.namespace]).output();
        let listed =
            String::from_utf8(output.expect("iproute2 is installed").stdout).expect("process ids are text");
        listed.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
    }

    pub fn signal(&self, signal: Signal) {
        for process in self.processes() {
            // The process may have exited in the meantime.
            let _ = kill_process(process, signal);
        }
    }

    /// Limits the receive buffer of sockets that are created later in the namespace.
    pub fn set_receive_buffer(&self, bytes: u32) {
        let sizes = format!("net.ipv4.tcp_rmem={} {bytes} {bytes}", bytes.min(4096));
        run(self.command("sysctl").args(["-w", &sizes]));
    }

    /// Makes the link resemble a path of several hops, for connections that are established later. The ends
    /// get permanent entries for each other's hardware addresses, so that address resolution neither queues
    /// on a slow link nor gets lost. Each TCP segment becomes a separate packet; otherwise dozens of segments
    /// travel between the interfaces as one packet and are lost together.
    pub fn emulate_distance(&self) {
        let Self { namespace, near, far, .. } = self;
        let ends = [
            (String::new(), near, self.far_address(), FAR_HARDWARE),
            (format!("-n {namespace} "), far, self.near_address(), NEAR_HARDWARE),
        ];
        for (place, device, peer, hardware) in ends {
            ip(&format!("{place}link set {device} gso_max_segs 1"));
            ip(&format!("{place}neighbour replace {peer} lladdr {hardware} dev {device} nud permanent"));
        }
    }

    /// Limits the rate towards the far end.
    pub fn limit_rate(&self, bytes_per_second: u32) {
        let [near, _] = self.ends("tc");
        limit_rate(near, bytes_per_second);
    }

    pub fn limit_rate_both_ways(&self, bytes_per_second: u32) {
        self.ends("tc").into_iter().for_each(|end| limit_rate(end, bytes_per_second));
    }

    /// Drops this percentage of the packets in each direction on arrival, so that no sender notices.
    pub fn drop_packets(&self, per_cent: u8) {
        let some = format!("meta protocol ip numgen random mod 100 < {per_cent} drop");
        let drop = if per_cent < 100 { &some } else { DROP_ALL };
        self.ends("nft").into_iter().for_each(|end| self.filter(end, drop));
    }

    /// Drops everything that arrives at the near end. The far end still receives.
    pub fn block_inbound(&self) {
        let [near, _] = self.ends("nft");
        self.filter(near, DROP_ALL);
    }

    /// Drops everything that arrives at the far end. The near end still receives.
    pub fn block_outbound(&self) {
        let [_, far] = self.ends("nft");
        self.filter(far, DROP_ALL);
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

    pub fn deliver_all_packets(&self) {
        for (mut nft, _) in self.ends("nft") {
            // The first statement creates the table if it does not exist, so that deleting it cannot fail.
            run(nft.arg(format!("table netdev {0} {{}}; delete table netdev {0}", self.namespace)));
        }
    }

    /// Returns a command that runs at each end, and the name of the end's interface.
    fn ends(&self, program: &str) -> [(Command, &str); 2] {
        [(Command::new(program), &self.near), (self.command(program), &self.far)]
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

/// Limits the rate with a token bucket: a burst of one packet, and a queue long enough to lose none.
fn limit_rate((mut tc, device): (Command, &str), bytes_per_second: u32) {
    let bits = u64::from(bytes_per_second) * 8;
    let bucket = format!("qdisc replace dev {device} root tbf rate {bits}bit burst 1600 limit 1000000");
    run(tc.args(bucket.split(' ')));
}

fn ip(arguments: &str) {
    run(Command::new("ip").args(arguments.split(' ')));
}

fn run(command: &mut Command) {
    try_to_run(command).unwrap_or_else(|error| panic!("{error}"));
}

fn try_to_run(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("cannot run {command:?} (are iproute2 and nftables installed?): {error}")),
    }
}
