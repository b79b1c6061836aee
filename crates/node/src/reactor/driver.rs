//! What a reactor asks of the system: sockets, their readiness, the time. One implementation speaks to the system,
//! another plays it in tests.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

/// Names a connection while it lives and never another one: slots are used again, with the next generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// The place in tables, from zero, always below the number of connections allowed.
    pub slot: u32,
    /// How many connections this slot had before.
    pub generation: u32,
}

impl ConnectionId {
    /// As one number, for those who keep names of connections without knowing what they are made of.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// What [`ConnectionId::to_u64`] made.
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        ConnectionId { slot: number as u32, generation: (number >> 32) as u32 }
    }
}

/// The time of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the driver was made. Never runs backwards: deadlines are told in it.
    pub elapsed_ms: u64,
    /// Milliseconds since 1970. May be set back.
    pub unix_ms: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverEvent {
    /// Somebody wants to connect.
    Accept,
    /// The waker was called.
    Woken,
    /// Something about a connection; it may have been closed since.
    Connection {
        /// Which.
        id: ConnectionId,
        /// What about it.
        ready: IoReadiness,
    },
}

/// What a connection has become ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoReadiness {
    /// Bytes have come.
    pub readable: bool,
    /// There is room for bytes again.
    pub writable: bool,
    /// The peer sends no more: behind the last bytes a read finds the end.
    pub read_closed: bool,
    /// The connection is broken in both directions.
    pub dead: bool,
}

/// The system, as one thread with one listener sees it.
///
/// Readiness is told once (edge-triggered): who was told that a socket is readable reads until a read brings fewer
/// bytes than there was room for, or [`io::ErrorKind::WouldBlock`]; likewise for writing. A driver that works by
/// completion (io_uring) keeps this contract with buffers of its own, for one copy.
pub trait Driver {
    /// Waits until something happens, at most `time_out` (`None`: for ever), and adds what did to `events`.
    /// Errors: the loop cannot go on.
    fn wait(&mut self, time_out: Option<Duration>, events: &mut Vec<DriverEvent>) -> io::Result<()>;

    /// Hears in how many frames others have asked for something since the last [`Driver::wait`].
    fn asked(&mut self, _frames: usize) {}

    /// The time.
    fn now(&mut self) -> Now;

    /// A handle with which other threads end a [`Driver::wait`] early.
    fn waker(&self) -> Waker;

    /// Takes up the next connection under the name `id`; from then on its events are told, beginning with what is
    /// true already. Errors: `WouldBlock` if nobody waits; any other means that this one or all must wait.
    fn accept(&mut self, id: ConnectionId) -> io::Result<()>;

    /// Begins to connect to `address` under the name `id`, without waiting: from then on its events are told, and being
    /// writable, or dead, is the first. Errors: the system's; there is no connection then.
    fn connect(&mut self, id: ConnectionId, address: SocketAddr) -> io::Result<()>;

    /// Takes no more connections, ever.
    fn stop_accepting(&mut self);

    /// Reads into the spare capacity of `into`, which must have some. Zero: the peer sends no more. Errors:
    /// [`io::ErrorKind::InvalidData`] if the peer speaks TLS and does so wrongly; the system's.
    fn read(&mut self, id: ConnectionId, into: &mut Vec<u8>) -> io::Result<usize>;

    /// Writes the pieces one after the other, as far as there is room; returns how many bytes.
    fn write(&mut self, id: ConnectionId, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Tells the peer that nothing more comes; reading goes on.
    fn shutdown_write(&mut self, id: ConnectionId);

    /// Where a connection's peer is, if that is known.
    fn peer(&self, _id: ConnectionId) -> Option<SocketAddr> {
        None
    }

    /// Whether a connection is one from another machine that speaks no TLS, where nothing else is served.
    fn wants_tls(&self, _id: ConnectionId) -> bool {
        false
    }

    /// Closes the connection and forgets it.
    fn close(&mut self, id: ConnectionId);
}
