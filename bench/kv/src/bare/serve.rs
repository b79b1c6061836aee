//! The event loop: each readable connection is read once, answered, and written to once.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use bench_common::failure::Failure;
use bench_common::limits::RECEIVE_BYTES;
use bench_common::maps::map_of_one;
use bench_common::readiness::{Events, Readiness, Watch};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::{BODY_BYTES_MAX, VERSION_MAX};
use zerohop_wire::{DecodeResult, Decoder, Features, HEADER_BYTES};

use super::store::Store;
use crate::limits::CONNECTIONS_MAX;

/// The listener's name among the events; connections are named by their indexes.
const LISTENER: u64 = u64::MAX;

/// Serves until the process is ended.
#[expect(clippy::disallowed_methods, reason = "the bare store is a server")]
pub(crate) fn serve(address: SocketAddr) -> Result<(), Failure> {
    let serving = || Failure::while_doing(format!("serving at {address}"));
    let listener = TcpListener::bind(address).map_err(serving())?;
    listener.set_nonblocking(true).map_err(serving())?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_millis(since_1970.as_millis() as u64);
    let mut store = Store::new(map_of_one(&address.to_string())?, now);

    let readiness = Readiness::new().map_err(serving())?;
    readiness.add(&listener, LISTENER).map_err(serving())?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Events::default();
    loop {
        readiness.wait(&mut events, None).map_err(serving())?;
        for ready in events.drain() {
            if ready.name == LISTENER {
                accept(&listener, &readiness, &mut connections).map_err(serving())?;
                continue;
            }
            let place = &mut connections[ready.name as usize];
            // An error of a connection closes only that one.
            if let Some(connection) = place
                && connection.turn(&mut store, &readiness, ready.name).is_err()
            {
                *place = None;
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    decoder: Decoder,
    /// Receive buffer, of which the first `filled` bytes are used.
    received: Vec<u8>,
    filled: usize,
    /// Send buffer, of which the bytes from `sent` on are unsent.
    out: Vec<u8>,
    sent: usize,
}

fn accept(
    listener: &TcpListener,
    readiness: &Readiness,
    connections: &mut Vec<Option<Connection>>,
) -> std::io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        let free = connections.iter().position(Option::is_none).unwrap_or(connections.len());
        if free == CONNECTIONS_MAX {
            // Dropped, and so closed.
            continue;
        }
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        readiness.add(&stream, free as u64)?;
        let connection = Connection {
            stream,
            decoder: Decoder::with_version(VERSION_MAX, Features::default()),
            received: vec![0; RECEIVE_BYTES],
            filled: 0,
            out: Vec::new(),
            sent: 0,
        };
        match connections.get_mut(free) {
            Some(place) => *place = Some(connection),
            None => connections.push(Some(connection)),
        }
    }
}

/// The connection is over.
struct ConnectionEnd;

impl Connection {
    fn turn(&mut self, store: &mut Store, readiness: &Readiness, name: u64) -> Result<(), ConnectionEnd> {
        if self.sent == self.out.len() {
            (self.sent, _) = (0, self.out.clear());
            self.receive()?;
            self.answer(store)?;
            if self.out.is_empty() {
                return Ok(());
            }
            self.send()?;
            if self.sent < self.out.len() {
                // The client does not read: nothing more is read from it until it does.
                readiness.change(&self.stream, name, Watch::Send).map_err(|_| ConnectionEnd)?;
            }
        } else {
            self.send()?;
            if self.sent == self.out.len() {
                readiness.change(&self.stream, name, Watch::Receive).map_err(|_| ConnectionEnd)?;
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), ConnectionEnd> {
        match self.stream.read(&mut self.received[self.filled..]) {
            Ok(0) => Err(ConnectionEnd),
            Ok(count) => {
                self.filled += count;
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(_) => Err(ConnectionEnd),
        }
    }

    fn answer(&mut self, store: &mut Store) -> Result<(), ConnectionEnd> {
        let mut at = 0;
        loop {
            match self.decoder.decode(&self.received[at..self.filled]) {
                DecodeResult::Frame { frame, used } => {
                    store.answer(&frame, &mut self.out).map_err(|_| ConnectionEnd)?;
                    at += used;
                }
                DecodeResult::Refused { envelope, failure, used, .. } => {
                    store.refuse(&envelope, failure, &mut self.out).map_err(|_| ConnectionEnd)?;
                    at += used;
                }
                DecodeResult::Need(need) => {
                    self.received.copy_within(at..self.filled, 0);
                    self.filled -= at;
                    if need > self.received.len() {
                        // The decoder refuses longer bodies, so this is bounded.
                        assert!(need <= HEADER_BYTES + BODY_BYTES_MAX);
                        self.received.resize(need, 0);
                    }
                    return Ok(());
                }
                DecodeResult::Broken(_) => return Err(ConnectionEnd),
            }
        }
    }

    fn send(&mut self) -> Result<(), ConnectionEnd> {
        match self.stream.write(&self.out[self.sent..]) {
            Ok(count) => {
                self.sent += count;
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(_) => Err(ConnectionEnd),
        }
    }
}
