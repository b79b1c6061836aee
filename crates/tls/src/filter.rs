//! The filter between a socket's bytes and the plain bytes.

use std::fmt;
use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Write};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use crate::config::{ClientTls, ServerTls};
use crate::error::{Side, ended};
use crate::limits::{CHUNK_BYTES, DRAINED_BYTES_MAX, SILENT_READS_MAX};

/// TLS over one non-blocking socket, which is passed to each call. Where it would block, the call
/// returns [`WouldBlock`](ErrorKind::WouldBlock).
///
/// Readiness is edge-triggered: a read that returns less than there was room for has emptied the
/// socket, and a write that accepts less than it was given has found it full.
pub struct Tls {
    connection: Connection,
    /// When the certificate of a client expires, in seconds since 1970, if it presents one.
    own_ends_s: Option<u64>,
}

/// The result of reading more plain bytes.
enum FillResult {
    /// There are some.
    Yes,
    /// The peer has closed its side.
    Ended,
}

impl Tls {
    /// The server side of a connection.
    ///
    /// # Errors No random numbers are available.
    pub fn server(config: &ServerTls) -> io::Result<Tls> {
        let connection =
            ServerConnection::new(config.config.clone()).map_err(|error| ended(Side::Server, None, error))?;
        Ok(Tls::new(connection.into()))
    }

    /// The client side, for a server that must prove to be `host`, a name or an address
    /// ([`host_of`](crate::host_of)).
    ///
    /// # Errors `host` is neither.
    pub fn client(config: &ClientTls, host: &str) -> io::Result<Tls> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "no certificate can name this host"))?;
        let connection = ClientConnection::new(config.config.clone(), name)
            .map_err(|error| ended(Side::Client, None, error))?;
        Ok(Tls { own_ends_s: config.own_ends_s, ..Tls::new(connection.into()) })
    }

    fn new(mut connection: Connection) -> Tls {
        // The caller's chunks bound the buffer; before the handshake is done, the caller must bound
        // it.
        connection.set_buffer_limit(None);
        Tls { connection, own_ends_s: None }
    }

    /// Reads up to `room` plain bytes, in pieces. Zero: the peer has closed its side. Also sends
    /// the protocol's own answers.
    ///
    /// # Errors Those of the socket, such as `WouldBlock`; [`fault_of`](crate::fault_of) says how
    /// the peer violated TLS.
    pub fn read(
        &mut self,
        socket: &mut (impl Read + Write),
        room: usize,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let mut consumed = 0;
        while consumed < room {
            match self.fill(socket) {
                Ok(FillResult::Ended) => break,
                Ok(FillResult::Yes) => {
                    let mut reader = self.connection.reader();
                    let buffered = reader.fill_buf()?;
                    let piece = &buffered[..buffered.len().min(room - consumed)];
                    let bytes = piece.len();
                    take(piece);
                    reader.consume(bytes);
                    consumed += bytes;
                }
                // Return what was read first; the next call finds the error again.
                Err(_) if consumed > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(consumed)
    }

    /// The first of the next plain bytes, which is not consumed; `None`: the peer has closed its
    /// side.
    ///
    /// # Errors As [`Tls::read`].
    pub fn peek(&mut self, socket: &mut (impl Read + Write)) -> io::Result<Option<u8>> {
        match self.fill(socket)? {
            FillResult::Ended => Ok(None),
            FillResult::Yes => Ok(self.connection.reader().fill_buf()?.first().copied()),
        }
    }

    /// Whether plain bytes are available without a read from the socket.
    pub fn has_more(&mut self) -> bool {
        self.connection.reader().fill_buf().is_ok_and(|buffered| !buffered.is_empty())
    }

    /// Writes the pieces, one after the other, as far as the socket accepts them; returns how many
    /// bytes. A little more may be buffered here ([`Tls::flush`]).
    ///
    /// # Errors Those of the socket, such as `WouldBlock` if it accepted nothing.
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

    /// Sends what is buffered here. `false`: the socket is full, and some is left.
    ///
    /// # Errors Those of the socket.
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

    /// Closes this side. Must be flushed.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }

    fn side(&self) -> Side {
        match self.connection {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        }
    }

    /// Reads until plain bytes are available, or the peer has closed its side.
    fn fill(&mut self, socket: &mut (impl Read + Write)) -> io::Result<FillResult> {
        for _ in 0..SILENT_READS_MAX {
            match self.connection.reader().fill_buf() {
                Ok([]) => return Ok(FillResult::Ended),
                Ok(_) => return Ok(FillResult::Yes),
                // The connection ended without a close. Frames have lengths and checksums, so a
                // truncated one is not mistaken for a whole.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(FillResult::Ended),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match self.connection.read_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let (side, own_ends_s) = (self.side(), self.own_ends_s);
            let processed =
                self.connection.process_new_packets().map_err(|error| ended(side, own_ends_s, error));
            // The handshake's answer, or the alert about the fault.
            let flushed = self.flush(socket);
            if processed.is_err() {
                discard(socket);
            }
            processed?;
            flushed?;
        }
        Err(io::Error::new(ErrorKind::InvalidData, "TLS that goes on and on and says nothing"))
    }
}

/// Discards what has arrived. The owner closes the socket next: with unread bytes the system would reset the connection,
/// and the peer might lose the alert.
fn discard(socket: &mut impl Read) {
    let (mut left, mut bytes) = (DRAINED_BYTES_MAX, [0; 4096]);
    while left > 0 {
        match socket.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => left = left.saturating_sub(read),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("is_handshaking", &self.connection.is_handshaking())
            .finish_non_exhaustive()
    }
}
