//! Free ports for nodes that keep them over restarts.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use zerohop_system::clock::HybridClock;

/// The range of the search: above the ports of services, and below the system's range for outgoing
/// connections, one of which could take a port while its node is down.
const FIRST: u16 = 20_000;
const END: u16 = 32_000;

/// Ports are reserved in blocks of this many; the first port of each block is the mark.
const BLOCK: u16 = 64;
const BLOCKS: u16 = (END - FIRST) / BLOCK;

/// Consecutive ports of this machine, reserved against other processes with such a search for as
/// long as this lives. The reservation also covers nodes that have not started yet or are down: two
/// clusters at the same addresses would mistake each other's nodes for their own.
#[derive(Debug)]
pub(crate) struct ReservedPorts {
    first: SocketAddr,
    /// UDP sockets at the first port of each block; nothing else of this project binds these.
    _reservations: Vec<UdpSocket>,
}

impl ReservedPorts {
    /// Reserves this many ports on which no process listens.
    pub(crate) fn find(count: u16) -> Option<ReservedPorts> {
        let blocks = count.div_ceil(BLOCK);
        let places = BLOCKS.checked_sub(blocks)? + 1;
        let draw =
            HybridClock::default().tick().millis() ^ u64::from(std::process::id()).wrapping_mul(0x9e37_79b9);
        let begin = (draw % u64::from(places)) as u16;
        (0..places).find_map(|step| ReservedPorts::reserve((begin + step) % places, blocks, count))
    }

    fn reserve(place: u16, blocks: u16, count: u16) -> Option<ReservedPorts> {
        let first = FIRST + place * BLOCK;
        let marks: Option<Vec<UdpSocket>> =
            (0..blocks).map(|block| reserve_block(loopback(first + block * BLOCK))).collect();
        let marks = marks?;
        (0..count)
            .all(|behind| is_free(loopback(first + behind)))
            .then(|| ReservedPorts { first: loopback(first), _reservations: marks })
    }

    /// The first reserved port.
    pub(crate) fn first(&self) -> SocketAddr {
        self.first
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn reserve_block(at: SocketAddr) -> Option<UdpSocket> {
    #[expect(clippy::disallowed_methods, reason = "nothing is sent: the system gives it to one process only")]
    let socket = UdpSocket::bind(at);
    socket.ok()
}

/// Whether no process listens at this address.
pub(crate) fn is_free(at: SocketAddr) -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "asks the system whether a node can listen there, and lets go"
    )]
    let listener = TcpListener::bind(at);
    listener.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_are_free_and_exclusive() {
        let counts = [9, 1, BLOCK, BLOCK + 1, 3 * BLOCK, 2];
        let reserved: Vec<ReservedPorts> = counts.map(|count| ReservedPorts::find(count).unwrap()).into();
        let mut ports = Vec::new();
        for (one, count) in reserved.iter().zip(counts) {
            assert!(one.first().ip().is_loopback());
            ports.extend((0..count).map(|behind| one.first().port() + behind));
        }
        assert!(ports.iter().all(|port| (FIRST..END).contains(port)));
        let all = ports.len();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), all, "given twice though all are free");
        #[expect(clippy::disallowed_methods, reason = "takes them")]
        let listeners: Vec<TcpListener> =
            ports.iter().map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).unwrap()).collect();
        let place = (reserved[0].first().port() - FIRST) / BLOCK;
        drop(reserved);
        assert!(ReservedPorts::reserve(place, 1, 9).is_none(), "a listener has it");
        drop(listeners);
        assert!(ReservedPorts::reserve(place, 1, 9).is_some(), "let go");
    }

    #[test]
    fn port_search_fails_beyond_available_ports() {
        assert!(ReservedPorts::find(END - FIRST + BLOCK).is_none());
    }
}
