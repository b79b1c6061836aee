//! Ports that nodes keep over a restart.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Mutex;

/// The searched ports. They are below those of `zerohop up` and below the ephemeral ones; an
/// outgoing connection could occupy such a port while its node is down.
const FIRST: u16 = 10_000;
const END: u16 = 20_000;

/// Ports of one block. A process reserves a block at its first port.
const BLOCK: u16 = 20;
const BLOCKS: u16 = (END - FIRST) / BLOCK;

/// The reservations of this process, until it ends. Each is a UDP socket bound to the first port of
/// a block; the system gives it to one process only, and releases it however the process ends.
static RESERVATIONS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// The first of so many free ports in a row. No other test on this machine gets them while this
/// process lives, and this process does not get them again. With equal addresses, nodes of two
/// clusters would accept each other.
pub(crate) fn ports(count: u16) -> u16 {
    assert!(count <= BLOCK, "{count} ports in a row are more than a block");
    let begin = (std::process::id() % u32::from(BLOCKS)) as u16;
    let found = (0..BLOCKS).map(|step| FIRST + (begin + step) % BLOCKS * BLOCK).find(|first| reserve(*first));
    found.expect("a block of free ports")
}

#[expect(clippy::disallowed_methods, reason = "asks the system whether a port is free")]
fn reserve(first: u16) -> bool {
    let Ok(mark) = UdpSocket::bind((Ipv4Addr::LOCALHOST, first)) else { return false };
    let is_free = (first..first + BLOCK).all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    if is_free {
        RESERVATIONS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(mark);
    }
    is_free
}

#[test]
fn ports_are_unique() {
    let (one, other) = (ports(BLOCK), ports(1));
    assert!(one.abs_diff(other) >= BLOCK && (FIRST..END).contains(&one) && (FIRST..END).contains(&other));
    #[expect(clippy::disallowed_methods, reason = "asks as another process would")]
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, one));
    assert!(socket.is_err(), "another process would be given it");
}
