//! A socket of the operating system, with or without TLS.

use std::io::{self, IoSlice, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use rustix::buffer::spare_capacity;
use zerohop_system::descriptors::CountedConnection;
use zerohop_tls::{FIRST_BYTE, ServerTls, Tls};

/// A socket with the state of its encryption.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    security: Security,
    /// Dropped with the stream.
    _counted: CountedConnection,
}

#[derive(Debug)]
enum Security {
    /// Bytes are not encrypted.
    Bare,
    /// No byte has arrived; the first one shows whether the client uses TLS.
    Unknown(ServerTls),
    Secured(Box<TlsStream>),
}

#[derive(Debug)]
struct TlsStream {
    tls: Tls,
    /// The connection sends nothing more after its buffered bytes.
    ends: bool,
}

impl Socket {
    /// An accepted connection, with the certificate to present if the client uses TLS.
    pub(super) fn accepted(stream: TcpStream, counted: CountedConnection, tls: Option<&ServerTls>) -> Socket {
        let security = tls.map_or(Security::Bare, |config| Security::Unknown(config.clone()));
        Socket { stream, security, _counted: counted }
    }

    /// A connection that this side has opened.
    pub(super) fn opened(stream: TcpStream, counted: CountedConnection, tls: Option<Tls>) -> Socket {
        let security =
            tls.map_or(Security::Bare, |tls| Security::Secured(Box::new(TlsStream { tls, ends: false })));
        Socket { stream, security, _counted: counted }
    }

    /// Whether the traffic is not encrypted.
    pub(super) fn is_bare(&self) -> bool {
        !matches!(self.security, Security::Secured(_))
    }

    /// Same as [`super::Driver::read`].
    pub(super) fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        if let Security::Unknown(config) = &self.security {
            let mut first = [0];
            match self.stream.peek(&mut first)? {
                0 => return Ok(0),
                _ if first[0] == FIRST_BYTE => {
                    let secured = TlsStream { tls: Tls::server(config)?, ends: false };
                    self.security = Security::Secured(Box::new(secured));
                }
                _ => self.security = Security::Bare,
            }
        }
        match &mut self.security {
            Security::Secured(secured) => {
                let room = into.capacity() - into.len();
                secured.tls.read(&mut self.stream, room, |piece| into.extend_from_slice(piece))
            }
            _ => Ok(rustix::io::read(&self.stream, spare_capacity(into))?),
        }
    }

    /// Same as [`super::Driver::write`].
    pub(super) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match (&mut self.security, pieces) {
            (Security::Secured(secured), pieces) => secured.tls.write(&mut self.stream, pieces),
            (_, [one]) => self.stream.write(one),
            (_, several) => self.stream.write_vectored(several),
        }
    }

    /// Sends the bytes that TLS has buffered, now that the socket has room. The next read or write reports errors of the socket.
    pub(super) fn send_buffered(&mut self) {
        if let Security::Secured(secured) = &mut self.security
            && let Ok(true) = secured.tls.flush(&mut self.stream)
            && secured.ends
        {
            drop(self.stream.shutdown(Shutdown::Write));
        }
    }

    /// Closes the sending direction after the buffered bytes are sent.
    pub(super) fn shutdown_write(&mut self) {
        match &mut self.security {
            Security::Secured(secured) => {
                secured.tls.end();
                secured.ends = true;
                self.send_buffered();
            }
            // This fails only if the connection is already broken, which the next event or time-out reports.
            _ => drop(self.stream.shutdown(Shutdown::Write)),
        }
    }
}
