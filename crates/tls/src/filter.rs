//! The filter: what comes over a socket and what is said over it.

use std::fmt;
use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Write};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use crate::config::{ClientTls, ServerTls};
use crate::error::ended;
use crate::limits::{CHUNK_BYTES, SILENT_READS_MAX};

/// TLS over one socket, which is handed over each time and must not wait: where it would, it says
/// [`WouldBlock`](ErrorKind::WouldBlock).
///
/// Readiness is as of a socket that tells it once (edge-triggered): a read that brings less than there was room for has taken
/// all that the socket had, and a write that takes less than it was given has found the socket full.
pub struct Tls {
    connection: Connection,
}

/// What came of looking for more that was said.
enum Filled {
    /// There is some.
    Yes,
    /// The peer says no more.
    Ended,
}

impl Tls {
    /// The side that was connected to.
    ///
    /// # Errors
    /// There is no randomness to be had.
    pub fn server(config: &ServerTls) -> io::Result<Tls> {
        let connection = ServerConnection::new(config.0.clone()).map_err(ended)?;
        Ok(Tls::new(connection.into()))
    }

    /// The side that connects, to a server that must prove to be `host`, a name or an address ([`host_of`](crate::host_of)).
    ///
    /// # Errors
    /// That is neither.
    pub fn client(config: &ClientTls, host: &str) -> io::Result<Tls> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "no certificate can name this host"))?;
        let connection = ClientConnection::new(config.0.clone(), name).map_err(ended)?;
        Ok(Tls::new(connection.into()))
    }

    fn new(mut connection: Connection) -> Tls {
        // Bounded by the chunks that are put in; what is said before the handshake is done, by who says it.
        connection.set_buffer_limit(None);
        Tls { connection }
    }

    /// Takes up to `room` bytes of what was said, in pieces. Zero: the peer says no more. Also sends what the protocol itself
    /// has to answer.
    ///
    /// # Errors
    /// The socket's, such as that it would wait; [`fault_of`](crate::fault_of) tells what the peer did wrong.
    pub fn read(
        &mut self,
        socket: &mut (impl Read + Write),
        room: usize,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while taken < room {
            match self.fill(socket) {
                Ok(Filled::Ended) => break,
                Ok(Filled::Yes) => {
                    let mut reader = self.connection.reader();
                    let said = reader.fill_buf()?;
                    let piece = &said[..said.len().min(room - taken)];
                    let bytes = piece.len();
                    take(piece);
                    reader.consume(bytes);
                    taken += bytes;
                }
                // What was taken is told first; what is wrong will be found again.
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// The first byte of what is said next, which stays where it is; `None`: the peer says no more.
    ///
    /// # Errors
    /// As [`Tls::read`].
    pub fn peek(&mut self, socket: &mut (impl Read + Write)) -> io::Result<Option<u8>> {
        match self.fill(socket)? {
            Filled::Ended => Ok(None),
            Filled::Yes => Ok(self.connection.reader().fill_buf()?.first().copied()),
        }
    }

    /// Whether something was said that a read would bring without asking the socket.
    pub fn has_more(&mut self) -> bool {
        self.connection.reader().fill_buf().is_ok_and(|said| !said.is_empty())
    }

    /// Says the pieces, one after the other, as far as the socket takes them; returns how many bytes. A little more may wait
    /// here ([`Tls::flush`]).
    ///
    /// # Errors
    /// The socket's, such as that it would wait, and took nothing.
    pub fn write(&mut self, socket: &mut impl Write, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.flush(socket)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut written = 0;
        for piece in pieces {
            for chunk in piece.chunks(CHUNK_BYTES) {
                self.connection.writer().write_all(chunk)?;
                written += chunk.len();
                if !self.flush(socket)? {
                    return Ok(written);
                }
            }
        }
        Ok(written)
    }

    /// Sends what waits here. `false`: the socket is full, and some is left.
    ///
    /// # Errors
    /// The socket's.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says that nothing more will be said. To be flushed.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }

    /// Sees to it that there is something that was said, reading as much as that takes.
    fn fill(&mut self, socket: &mut (impl Read + Write)) -> io::Result<Filled> {
        for _ in 0..SILENT_READS_MAX {
            match self.connection.reader().fill_buf() {
                Ok([]) => return Ok(Filled::Ended),
                Ok(_) => return Ok(Filled::Yes),
                // The connection was cut. Frames have their own lengths and checksums, so that nothing is mistaken for whole.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Filled::Ended),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match self.connection.read_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let processed = self.connection.process_new_packets().map_err(ended);
            // An answer of the handshake, or the alert that says what was wrong.
            let flushed = self.flush(socket);
            processed?;
            flushed?;
        }
        Err(io::Error::new(ErrorKind::InvalidData, "TLS that goes on and on and says nothing"))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("is_handshaking", &self.connection.is_handshaking())
            .finish_non_exhaustive()
    }
}
