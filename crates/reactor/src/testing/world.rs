//! The simulated system in memory: a test sends and reads every byte of its peers.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::super::*;

/// The simulated network, shared between the driver and the test, which acts for the peers.
#[derive(Debug, Default)]
pub(crate) struct FakeNetwork {
    pub(crate) now_ms: u64,
    /// Peers that wait to be accepted.
    backlog: VecDeque<usize>,
    /// By number of the peer.
    pub(crate) peers: Vec<FakePeer>,
    by_id: BTreeMap<ConnectionId, usize>,
    pub(crate) events: Vec<DriverEvent>,
    /// The clock advances by this much after the next read of the server: a simulated pause.
    pub(crate) pause_ms: u64,
    pub(crate) accept_error: Option<ErrorKind>,
    /// No descriptors are left for connections.
    pub(crate) lacks_descriptors: bool,
    pub(crate) connect_error: Option<ErrorKind>,
    /// Addresses to which the server has connected, each with the number of the peer there.
    pub(crate) called: Vec<(SocketAddr, usize)>,
    /// The nonzero numbers of request frames that the server has reported.
    pub(crate) request_counts: Vec<usize>,
    listening: bool,
}

/// The other end of one connection.
#[derive(Debug, Default)]
pub(crate) struct FakePeer {
    id: Option<ConnectionId>,
    to_server: VecDeque<u8>,
    sent_all: bool,
    /// Bytes that the server has sent and the peer has read.
    pub(crate) bytes_read: Vec<u8>,
    /// Bytes that the server has sent and the peer has not read.
    from_server: VecDeque<u8>,
    /// Maximum number of bytes in flight between the server and the peer.
    window: usize,
    /// Maximum number of bytes of one read of the server.
    pub(crate) read_max: usize,
    pub(crate) server_shut: bool,
    pub(crate) server_closed: bool,
    /// The server found no room, and waits for it.
    awaits_space: bool,
    pub(crate) writes: usize,
}

/// Simulates the system over a [`FakeNetwork`]. It never waits: tests advance the time.
#[derive(Debug)]
pub(crate) struct FakeDriver {
    pub(crate) world: Rc<RefCell<FakeNetwork>>,
    pub(crate) is_woken: Arc<WokenFlag>,
}

#[derive(Debug, Default)]
pub(crate) struct WokenFlag(pub(crate) AtomicBool);

impl Wake for WokenFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl FakeDriver {
    pub(crate) fn new() -> (Self, Rc<RefCell<FakeNetwork>>) {
        let world = Rc::new(RefCell::new(FakeNetwork { listening: true, ..FakeNetwork::default() }));
        (FakeDriver { world: Rc::clone(&world), is_woken: Arc::default() }, world)
    }
}

impl FakeNetwork {
    pub(crate) fn connect(&mut self) -> usize {
        self.peers.push(FakePeer { window: 1 << 16, read_max: usize::MAX, ..FakePeer::default() });
        self.backlog.push_back(self.peers.len() - 1);
        self.events.push(DriverEvent::Accept);
        self.peers.len() - 1
    }

    /// A peer accepts the server's connection.
    pub(crate) fn accept_call(&mut self, peer: usize) {
        self.notify(peer, IoReadiness { writable: true, ..IoReadiness::default() });
    }

    pub(crate) fn send(&mut self, peer: usize, bytes: &[u8]) {
        self.peers[peer].to_server.extend(bytes);
        self.notify(peer, IoReadiness { readable: true, ..IoReadiness::default() });
    }

    pub(crate) fn send_end(&mut self, peer: usize) {
        self.peers[peer].sent_all = true;
        self.notify(peer, IoReadiness { readable: true, read_closed: true, ..IoReadiness::default() });
    }

    pub(crate) fn reset(&mut self, peer: usize) {
        self.notify(peer, IoReadiness { dead: true, readable: true, writable: true, read_closed: true });
    }

    /// The peer reads up to `most` bytes.
    pub(crate) fn peer_read(&mut self, peer: usize, most: usize) -> usize {
        let entry = &mut self.peers[peer];
        let count = most.min(entry.from_server.len());
        entry.bytes_read.extend(entry.from_server.drain(..count));
        if count > 0 && std::mem::take(&mut entry.awaits_space) {
            self.notify(peer, IoReadiness { writable: true, ..IoReadiness::default() });
        }
        count
    }

    /// Changes the maximum number of bytes in flight between the server and the peer.
    pub(crate) fn set_window(&mut self, peer: usize, bytes: usize) {
        let entry = &mut self.peers[peer];
        entry.window = bytes;
        if bytes > entry.from_server.len() && std::mem::take(&mut entry.awaits_space) {
            self.notify(peer, IoReadiness { writable: true, ..IoReadiness::default() });
        }
    }

    fn notify(&mut self, peer: usize, ready: IoReadiness) {
        if let Some(id) = self.peers[peer].id {
            self.events.push(DriverEvent::Connection { id, ready });
        }
    }

    fn peer(&mut self, id: ConnectionId) -> &mut FakePeer {
        &mut self.peers[self.by_id[&id]]
    }
}

impl Driver for FakeDriver {
    fn wait(&mut self, _: Option<Duration>, events: &mut Vec<DriverEvent>) -> io::Result<()> {
        let mut world = self.world.borrow_mut();
        events.append(&mut world.events);
        if self.is_woken.0.swap(false, Ordering::SeqCst) {
            events.push(DriverEvent::Woken);
        }
        Ok(())
    }

    fn count_requests(&mut self, frames: usize) {
        self.world.borrow_mut().request_counts.extend((frames > 0).then_some(frames));
    }

    fn now(&mut self) -> ClockSample {
        let elapsed_ms = self.world.borrow().now_ms;
        ClockSample { elapsed_ms, unix_ms: 1_700_000_000_000 + elapsed_ms }
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.is_woken))
    }

    fn accept(&mut self, id: ConnectionId) -> io::Result<Admission> {
        let mut world = self.world.borrow_mut();
        if let Some(error) = world.accept_error.take() {
            return Err(error.into());
        }
        let number = world.backlog.pop_front().filter(|_| world.listening).ok_or(ErrorKind::WouldBlock)?;
        world.by_id.insert(id, number);
        let peer = &mut world.peers[number];
        peer.id = Some(id);
        let (readable, read_closed) = (!peer.to_server.is_empty() || peer.sent_all, peer.sent_all);
        world.notify(number, IoReadiness { readable, writable: true, read_closed, dead: false });
        Ok(if world.lacks_descriptors { Admission::Refusal } else { Admission::Service })
    }

    fn connect(&mut self, id: ConnectionId, address: SocketAddr) -> io::Result<()> {
        let mut world = self.world.borrow_mut();
        if let Some(error) = world.connect_error.take() {
            return Err(error.into());
        }
        world.peers.push(FakePeer {
            id: Some(id),
            window: 1 << 16,
            read_max: usize::MAX,
            ..FakePeer::default()
        });
        let number = world.peers.len() - 1;
        world.by_id.insert(id, number);
        world.called.push((address, number));
        Ok(())
    }

    fn stop_accepting(&mut self) {
        self.world.borrow_mut().listening = false;
    }

    fn read(&mut self, id: ConnectionId, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut world = self.world.borrow_mut();
        let peer = world.peer(id);
        let room = into.capacity() - into.len();
        assert!(room > 0, "a read without room looks like the end");
        let count = room.min(peer.to_server.len()).min(peer.read_max);
        let pause_ms = std::mem::take(&mut world.pause_ms);
        world.now_ms += pause_ms;
        let peer = world.peer(id);
        if count == 0 && !peer.sent_all {
            return Err(ErrorKind::WouldBlock.into());
        }
        into.extend(peer.to_server.drain(..count));
        // A short read ends readiness, as in the real system; remaining bytes must be reported again.
        if count < room && !peer.to_server.is_empty() {
            let number = world.by_id[&id];
            world.notify(number, IoReadiness { readable: true, ..IoReadiness::default() });
        }
        Ok(count)
    }

    fn write(&mut self, id: ConnectionId, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut world = self.world.borrow_mut();
        let peer = world.peer(id);
        assert!(!peer.server_shut, "nothing may be sent after the end");
        peer.writes += 1;
        let room = peer.window.saturating_sub(peer.from_server.len());
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        peer.from_server.extend(pieces.iter().flat_map(|piece| piece.iter()).take(room));
        peer.awaits_space = room < all;
        if room == 0 && all > 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(all.min(room)) }
    }

    fn shutdown_write(&mut self, id: ConnectionId) {
        self.world.borrow_mut().peer(id).server_shut = true;
    }

    fn close(&mut self, id: ConnectionId) {
        let mut world = self.world.borrow_mut();
        world.peer(id).server_closed = true;
        world.by_id.remove(&id);
    }
}
