//! The network of nodes and clients: loopback addresses of their own, or a network namespace for
//! each node, joined by a router that can block traffic from one node to another.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

/// The port of every manager; its instance has the next port.
pub(crate) const PORT: u16 = 7400;

/// The network of the nodes.
#[derive(Debug)]
pub(crate) enum Net {
    /// On 127.A.B.2 and following. The mark, a UDP socket at 127.A.B.1, reserves them against other
    /// tests of this machine.
    Loopback { a: u8, b: u8, _mark: UdpSocket },
    /// In namespaces whose names begin with `name`. Clients run at the router, and are never cut
    /// off.
    Spaces { name: String, nodes: usize },
}

static MADE: AtomicU16 = AtomicU16::new(0);

impl Net {
    pub(crate) fn loopback() -> Net {
        let begin = std::process::id();
        let mut places = (0..128 * 256).map(|step| {
            let place = begin.wrapping_add(step) % (128 * 256);
            (64 + (place / 256) as u8, (place % 256) as u8)
        });
        let hold = |(a, b)| {
            Some(Net::Loopback { a, b, _mark: UdpSocket::bind((Ipv4Addr::new(127, a, b, 1), PORT)).ok()? })
        };
        places.find_map(hold).expect("unused loopback addresses")
    }

    /// Namespaces for this many nodes. `None`: this user may not create any.
    ///
    /// # Panics `ip` is missing, though this user may create namespaces: where the test can run, it
    /// must not be skipped.
    pub(crate) fn spaces(nodes: usize) -> Option<Net> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        assert!(
            Command::new("ip").arg("-V").output().is_ok(),
            "the program `ip` is missing: install iproute2"
        );
        let name = format!("zht{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let net = Net::Spaces { name: name.clone(), nodes };
        ip(&format!("netns add {name}-r"));
        ip(&format!("-n {name}-r link set lo up"));
        let mut forward = inside(&format!("{name}-r"), Path::new("sh"));
        assert!(forward.args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]).status().unwrap().success());
        for node in 0..nodes {
            let space = format!("{name}-{node}");
            ip(&format!("netns add {space}"));
            ip(&format!("link add name n{node} netns {name}-r type veth peer name eth0 netns {space}"));
            ip(&format!("-n {name}-r addr add 10.77.{node}.1/24 dev n{node}"));
            ip(&format!("-n {name}-r link set n{node} up"));
            ip(&format!("-n {space} addr add 10.77.{node}.2/24 dev eth0"));
            ip(&format!("-n {space} link set eth0 up"));
            ip(&format!("-n {space} link set lo up"));
            ip(&format!("-n {space} route add default via 10.77.{node}.1"));
        }
        Some(net)
    }

    pub(crate) fn address(&self, node: usize) -> String {
        match self {
            Net::Loopback { a, b, .. } => format!("127.{a}.{b}.{}", node + 2),
            Net::Spaces { .. } => format!("10.77.{node}.2"),
        }
    }

    /// A command that runs on the network of a node.
    pub(crate) fn node(&self, node: usize, program: &Path) -> Command {
        match self {
            Net::Loopback { .. } => Command::new(program),
            Net::Spaces { name, .. } => inside(&format!("{name}-{node}"), program),
        }
    }

    /// A command that runs on the network of clients.
    pub(crate) fn client(&self, program: &Path) -> Command {
        match self {
            Net::Loopback { .. } => Command::new(program),
            Net::Spaces { name, .. } => inside(&format!("{name}-r"), program),
        }
    }

    /// Blocks traffic from one node to another; the other direction still works.
    pub(crate) fn block(&self, from: usize, to: usize) {
        self.rule("add", from, to);
    }

    /// Unblocks the traffic.
    pub(crate) fn unblock(&self, from: usize, to: usize) {
        self.rule("del", from, to);
    }

    fn rule(&self, how: &str, from: usize, to: usize) {
        let Net::Spaces { name, .. } = self else { panic!("loopback addresses cannot be separated") };
        let (from, to) = (self.address(from), self.address(to));
        ip(&format!("-n {name}-r rule {how} from {from} to {to} blackhole"));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if let Net::Spaces { name, nodes } = self {
            for space in (0..*nodes).map(|node| node.to_string()).chain(["r".to_owned()]) {
                drop(Command::new("ip").args(["netns", "del", &format!("{name}-{space}")]).output());
            }
        }
    }
}

fn inside(space: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", space]).arg(program);
    command
}

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}
