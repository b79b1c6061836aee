//! Free ports for a node that keeps them when it is started again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use zerohop_node::clock::HybridClock;

/// Where they are looked for: above what services use, below what systems give to outgoing connections, one of which
/// could take a port while its node is down.
const FIRST: u16 = 20_000;
const END: u16 = 32_000;

/// Places looked at.
const TRIES_MAX: u16 = 200;

/// An address of this machine at which nobody listens, nor at the ports behind it, so many in all. Somebody may listen
/// there a moment later.
pub(crate) fn free_ports(count: u16) -> Option<SocketAddr> {
    let places = (END - FIRST) / count;
    let draw =
        HybridClock::default().tick().millis() ^ u64::from(std::process::id()).wrapping_mul(0x9e37_79b9);
    let first = (draw % u64::from(places)) as u16;
    (0..TRIES_MAX.min(places))
        .map(|step| SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + (first + step * 7) % places * count)))
        .find(|at| (0..count).all(|behind| is_free(SocketAddr::new(at.ip(), at.port() + behind))))
}

fn is_free(at: SocketAddr) -> bool {
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
    fn free_ports_are_free() {
        let at = free_ports(9).unwrap();
        assert!(at.ip().is_loopback() && (FIRST..END - 8).contains(&at.port()));
        #[expect(clippy::disallowed_methods, reason = "takes them")]
        let taken: Vec<TcpListener> =
            (0..9).map(|behind| TcpListener::bind((at.ip(), at.port() + behind)).unwrap()).collect();
        assert!((0..9).all(|behind| !is_free(SocketAddr::new(at.ip(), at.port() + behind))));
        drop(taken);
    }
}
