//! The driver that uses the operating system through mio: edge-triggered readiness from epoll (or kqueue).

#![expect(clippy::disallowed_methods, reason = "a driver is where a reactor's time comes from")]

use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use rustix::io::Errno;
use rustix::net::sockopt;
use tracing::warn;
use zerohop_busy_poll::BusyPoll;
use zerohop_system::clock::unix_ms;
use zerohop_system::descriptors::{ConnectionRoom, CountedConnection, Descriptors};
use zerohop_system::refused_connections;
use zerohop_system::repeated::RepeatedEvent;
use zerohop_tls::Tls;

use super::driver::{Admission, ClockSample, ConnectionId, Driver, DriverEvent, IoReadiness};
use super::limits::{BACKLOG, EVENTS_MAX, KEEP_ALIVE_S};
use super::service::FOREIGN_LACKS_DESCRIPTORS;
use super::socket::Socket;
use crate::{CertificateRefusals, TlsOptions};

/// Maximum number of connections that are closed in one turn because descriptors are used up.
const REFUSED_PER_TURN_MAX: usize = 64;
/// Minimum time between two log messages about such connections, in milliseconds.
const REFUSED_LOG_INTERVAL_MS: u64 = 10_000;

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);

/// A listener and its connections on an event queue of the system.
#[derive(Debug)]
pub struct MioDriver {
    poll: Poll,
    events: Events,
    listener: Option<TcpListener>,
    /// By slot. An entry belongs to the newest generation of the slot: the reactor uses no older id.
    sockets: Vec<Option<Socket>>,
    waker: Arc<PollWaker>,
    started: Instant,
    busy_poll: BusyPoll,
    /// The TLS settings, if TLS is in use.
    tls: Option<TlsOptions>,
    descriptors: Descriptors,
    /// Connections that were closed for lack of descriptors.
    refusals: RepeatedEvent,
    certificates_refused: CertificateRefusals,
}

#[derive(Debug)]
struct PollWaker(mio::Waker);

impl MioDriver {
    /// Listens at `address`. The caller decides whether an address other than loopback is permitted. Port 0 chooses a free port.
    ///
    /// # Errors
    /// Those of the system, for example if the address is in use.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(PollWaker(mio::Waker::new(poll.registry(), WAKER)?));
        let mut listener = TcpListener::bind(address)?;
        // Listens again for a longer queue: a connection that finds the queue full is dropped silently, and retries after a second.
        rustix::net::listen(&listener, BACKLOG)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(MioDriver {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            listener: Some(listener),
            sockets: Vec::new(),
            waker,
            started: Instant::now(),
            busy_poll: BusyPoll::default(),
            tls: None,
            descriptors: Descriptors::of_process(),
            refusals: RepeatedEvent::new(REFUSED_LOG_INTERVAL_MS),
            certificates_refused: CertificateRefusals::default(),
        })
    }

    /// Counts refused connections, and logs how many there were if a line is due.
    fn log_refused(&mut self, refused: usize) {
        refused_connections::record(refused as u64);
        let elapsed_ms = self.started.elapsed().as_millis() as u64;
        if let Some(refused) = self.refusals.record(elapsed_ms, refused as u64) {
            let (limit, reserved) =
                (self.descriptors.limit().unwrap_or(u64::MAX), self.descriptors.reserved());
            warn!(
                refused,
                limit,
                reserved,
                "connections are closed: this process may have {}; start it with a higher limit (`ulimit -n`; LimitNOFILE for systemd), \
                 or close connections that are not needed",
                self.descriptors
            );
        }
    }

    /// The address of the listener.
    ///
    /// # Errors
    /// The driver has stopped listening, or those of the system.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?.local_addr()
    }

    /// Enables TLS from now on.
    pub fn encrypt(&mut self, tls: Option<TlsOptions>) {
        self.tls = tls;
    }

    /// Registers a connection for events.
    fn register(&mut self, id: ConnectionId, mut socket: Socket) -> io::Result<()> {
        let token = Token(id.to_u64() as usize);
        self.poll.registry().register(&mut socket.stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let slot = id.slot as usize;
        if self.sockets.len() <= slot {
            self.sockets.resize_with(slot + 1, || None);
        }
        self.sockets[slot] = Some(socket);
        Ok(())
    }

    /// Busy-polls for a while, if that is worth it, and then sleeps.
    fn wait_for_events(&mut self, time_out: Option<Duration>) -> io::Result<()> {
        if time_out == Some(Duration::ZERO) {
            return self.poll.poll(&mut self.events, time_out);
        }
        let begin = Instant::now();
        let window = self.busy_poll.window(time_out);
        let mut looked = Duration::ZERO;
        while looked < window {
            self.poll.poll(&mut self.events, Some(Duration::ZERO))?;
            looked = begin.elapsed();
            if !self.events.is_empty() {
                self.busy_poll.record_polled(looked);
                self.busy_poll.waited(looked, false);
                return Ok(());
            }
        }
        self.busy_poll.record_polled(looked);
        self.poll.poll(&mut self.events, time_out.map(|time_out| time_out.saturating_sub(looked)))?;
        self.busy_poll.waited(begin.elapsed(), true);
        Ok(())
    }

    /// When a socket has room again, bytes that TLS has buffered are sent first.
    fn send_buffered(&mut self, events: &[DriverEvent]) {
        for event in events {
            if let DriverEvent::Connection { id, ready } = event
                && ready.writable
                && let Ok(socket) = self.socket(*id)
            {
                socket.send_buffered();
            }
        }
    }

    fn socket(&mut self, id: ConnectionId) -> io::Result<&mut Socket> {
        let socket = self.sockets.get_mut(id.slot as usize).and_then(Option::as_mut);
        socket.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Driver for MioDriver {
    fn wait(&mut self, time_out: Option<Duration>, events: &mut Vec<DriverEvent>) -> io::Result<()> {
        match self.wait_for_events(time_out) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        events.extend(self.events.iter().map(|event| match event.token() {
            LISTENER => DriverEvent::Accept,
            WAKER => DriverEvent::Woken,
            Token(token) => DriverEvent::Connection {
                id: ConnectionId::from_u64(token as u64),
                ready: IoReadiness {
                    readable: event.is_readable(),
                    writable: event.is_writable(),
                    read_closed: event.is_read_closed(),
                    dead: event.is_error() || (event.is_write_closed() && event.is_read_closed()),
                },
            },
        }));
        if self.tls.is_some() {
            self.send_buffered(events);
        }
        Ok(())
    }

    fn count_requests(&mut self, frames: usize) {
        self.busy_poll.record_arrivals(frames);
    }

    fn now(&mut self) -> ClockSample {
        ClockSample { elapsed_ms: self.started.elapsed().as_millis() as u64, unix_ms: unix_ms() }
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.waker))
    }

    fn accept(&mut self, id: ConnectionId) -> io::Result<Admission> {
        let listener = self.listener.as_ref().ok_or(io::ErrorKind::WouldBlock)?;
        let (socket, _) = listener.accept()?;
        let is_bare = self.tls.is_none();
        let counted = CountedConnection::count();
        let room = self.descriptors.room_for(&counted, &socket);
        if room == ConnectionRoom::Closed {
            refuse_at_once(socket, is_bare);
            // Other connections wait to be accepted, and are closed as well: the server could not serve them.
            let others = (1..REFUSED_PER_TURN_MAX).map_while(|_| listener.accept().ok());
            let refused = others.map(|(socket, _)| refuse_at_once(socket, is_bare)).count() + 1;
            self.log_refused(refused);
            return Err(Errno::MFILE.into());
        }
        let admission = match room {
            ConnectionRoom::Service => Admission::Service,
            ConnectionRoom::Refusal | ConnectionRoom::Closed => Admission::Refusal,
        };
        if admission == Admission::Refusal {
            self.log_refused(1);
        }
        prepare(&socket)?;
        let socket = Socket::accepted(socket, counted, self.tls.as_ref().map(|tls| &tls.server));
        self.register(id, socket)?;
        Ok(admission)
    }

    fn connect(&mut self, id: ConnectionId, address: SocketAddr) -> io::Result<()> {
        let client = self.tls.as_ref().and_then(|tls| tls.client.as_ref());
        let tls = client.map(|config| Tls::client(config, &address.ip().to_string())).transpose()?;
        let counted = CountedConnection::count();
        let socket = TcpStream::connect(address)?;
        prepare(&socket)?;
        self.register(id, Socket::opened(socket, counted, tls))
    }

    fn stop_accepting(&mut self) {
        self.listener = None;
    }

    fn read(&mut self, id: ConnectionId, into: &mut Vec<u8>) -> io::Result<usize> {
        let result = self.socket(id)?.read(into);
        if let Err(error) = &result
            && self.certificates_refused.must_log(error, REFUSED_LOG_INTERVAL_MS)
        {
            let peer = self.peer(id).map(|peer| peer.to_string()).unwrap_or_default();
            warn!(peer, reason = %error, "a client is refused");
        }
        result
    }

    fn write(&mut self, id: ConnectionId, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket(id)?.write(pieces)
    }

    fn shutdown_write(&mut self, id: ConnectionId) {
        if let Ok(socket) = self.socket(id) {
            socket.shutdown_write();
        }
    }

    fn peer(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.sockets.get(id.slot as usize)?.as_ref()?.stream.peer_addr().ok()
    }

    fn lacks_required_tls(&self, id: ConnectionId) -> bool {
        let socket = self.sockets.get(id.slot as usize).and_then(Option::as_ref);
        // A peer with an unknown address counts as another machine.
        let is_near = || self.peer(id).is_some_and(|peer| peer.ip().to_canonical().is_loopback());
        socket.is_some_and(Socket::is_bare)
            && self.tls.as_ref().is_some_and(|tls| tls.refuses_bare(is_near()))
    }

    fn close(&mut self, id: ConnectionId) {
        // Closing the descriptor also removes it from the event queue.
        if let Some(socket) = self.sockets.get_mut(id.slot as usize) {
            *socket = None;
        }
    }
}

impl Wake for PollWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // This fails only if the event queue is gone, and then the thread to wake is gone too.
        let _ = self.0.wake();
    }
}

/// Closes a connection that no descriptor is left for. Without TLS it gets the reason, in the words that Redis clients show; a client that
/// has already sent something may miss them.
fn refuse_at_once(mut socket: TcpStream, is_bare: bool) {
    if is_bare {
        // A new connection has room for it; if not, it is closed without words.
        let _ = socket.write(FOREIGN_LACKS_DESCRIPTORS);
        let _ = socket.shutdown(Shutdown::Write);
    }
}

/// Answers are sent at once, and a peer whose machine has failed is detected.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    let (idle_s, between_s, times) = KEEP_ALIVE_S;
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(idle_s))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(between_s))?;
    sockopt::set_tcp_keepcnt(socket, times)?;
    Ok(())
}

// The tokens of the listener and of the waker are never those of a connection: slots stay far below.
const _: () = assert!(usize::BITS >= 64 && (super::limits::CONNECTIONS_MAX as u64) < (u32::MAX as u64) / 2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_burst_waits_in_accept_queue() {
        let driver = MioDriver::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = driver.local_address().unwrap();
        let patience = Duration::from_millis(900);
        let connected: std::io::Result<Vec<_>> =
            (0..500).map(|_| std::net::TcpStream::connect_timeout(&address, patience)).collect();
        assert!(connected.is_ok(), "the queue of the system is too short");
    }

    #[test]
    fn connection_ids_roundtrip_through_u64() {
        for (slot, generation) in [(0, 0), (1, 0), (0, 1), (8191, u32::MAX), (77, 1 << 31)] {
            let id = ConnectionId { slot, generation };
            assert_eq!(ConnectionId::from_u64(id.to_u64()), id);
        }
    }

    #[test]
    fn port_in_use_is_reported() {
        let first = MioDriver::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let error = MioDriver::listen(first.local_address().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn driver_busy_polls_only_when_worthwhile() {
        let mut driver = MioDriver::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let waker = driver.waker();
        let mut looks_after = |act: &dyn Fn(&mut MioDriver)| {
            act(&mut driver);
            driver.busy_poll.window(None) > Duration::ZERO
        };
        let millisecond = Some(Duration::from_millis(1));
        assert!(!looks_after(&|_| ()));
        // Nearly all of these are short, but the machine may be busy.
        assert!((0..10_000).any(|_| {
            waker.wake_by_ref();
            looks_after(&|driver| driver.wait(None, &mut Vec::new()).unwrap())
        }));
        assert!((0..4).any(|_| !looks_after(&|driver| driver.wait(millisecond, &mut Vec::new()).unwrap())));
        assert!((0..10_000).any(|_| {
            waker.wake_by_ref();
            looks_after(&|driver| driver.wait(None, &mut Vec::new()).unwrap())
        }));
        assert!(!looks_after(&|driver| driver.count_requests(2)));
    }

    #[test]
    fn another_thread_ends_a_wait() {
        let mut driver = MioDriver::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let waker = driver.waker();
        let other = std::thread::spawn(move || waker.wake());
        let mut events = Vec::new();
        driver.wait(Some(Duration::from_secs(10)), &mut events).unwrap();
        other.join().unwrap();
        assert_eq!(events, [DriverEvent::Woken]);
    }
}
