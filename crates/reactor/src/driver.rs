//! The interface of a reactor to the system: sockets, their readiness, the time. One implementation uses the operating system, another simulates it
//! in tests.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

pub use zerohop_base::connection::ConnectionId;

/// The time of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSample {
    /// Milliseconds since the driver was created. Monotonic: deadlines use this clock.
    pub elapsed_ms: u64,
    /// Milliseconds since 1970. This clock may be set back.
    pub unix_ms: u64,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverEvent {
    /// A client wants to connect.
    Accept,
    /// The waker was called.
    Woken,
    /// An event of a connection, which may have been closed since.
    Connection {
        /// The connection.
        id: ConnectionId,
        /// What it is ready for.
        ready: IoReadiness,
    },
}

/// What a connection has become ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoReadiness {
    /// Bytes have arrived.
    pub readable: bool,
    /// The send buffer has room again.
    pub writable: bool,
    /// The peer sends no more: after the last bytes, a read returns the end of the stream.
    pub read_closed: bool,
    /// The connection is broken in both directions.
    pub dead: bool,
}

/// What an accepted connection gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is served, unless all connections are in use.
    Service,
    /// Only the reason why it is closed: other connections or data need the descriptors that are left.
    Refusal,
}

/// The system, as seen by one thread with one listener.
///
/// Readiness is reported once (edge-triggered). After a report that a socket is readable, the reactor reads until a read returns fewer bytes than
/// there was room for, or [`io::ErrorKind::WouldBlock`]; likewise for writing. A driver that works by completion (io_uring) can keep this contract
/// with buffers of its own, at the cost of one copy.
pub trait Driver {
    /// Waits for events, at most `time_out` (`None`: forever), and adds them to `events`. Errors: the loop cannot continue.
    fn wait(&mut self, time_out: Option<Duration>, events: &mut Vec<DriverEvent>) -> io::Result<()>;

    /// Receives the number of request frames that have arrived since the last [`Driver::wait`].
    fn count_requests(&mut self, _frames: usize) {}

    /// The current time.
    fn now(&mut self) -> ClockSample;

    /// A handle with which other threads end a [`Driver::wait`] early.
    fn waker(&self) -> Waker;

    /// Accepts the next connection under the id `id`. From then on its events are reported, including what is already true. Errors: `WouldBlock` if
    /// no connection is waiting; after any other error the reactor must pause before it accepts more.
    fn accept(&mut self, id: ConnectionId) -> io::Result<Admission>;

    /// Starts to connect to `address` under the id `id`, without waiting. From then on its events are reported; the first is that it is writable,
    /// or dead. Errors: those of the system; there is no connection then.
    fn connect(&mut self, id: ConnectionId, address: SocketAddr) -> io::Result<()>;

    /// Permanently stops accepting connections.
    fn stop_accepting(&mut self);

    /// Reads into the spare capacity of `into`, which must not be empty. Zero: the peer sends no more. Errors: [`io::ErrorKind::InvalidData`] if
    /// the peer's TLS is invalid; those of the system.
    fn read(&mut self, id: ConnectionId, into: &mut Vec<u8>) -> io::Result<usize>;

    /// Writes the pieces one after the other, as far as there is room; returns the number of bytes.
    fn write(&mut self, id: ConnectionId, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Closes the sending direction; reading continues.
    fn shutdown_write(&mut self, id: ConnectionId);

    /// The address of a connection's peer, if it is known.
    fn peer(&self, _id: ConnectionId) -> Option<SocketAddr> {
        None
    }

    /// Whether a connection has no TLS, although the server requires TLS of it.
    fn lacks_required_tls(&self, _id: ConnectionId) -> bool {
        false
    }

    /// Closes the connection and forgets it.
    fn close(&mut self, id: ConnectionId);
}
