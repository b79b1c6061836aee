//! A connection from a client: a socket, with or without TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use zerohop_tls::{ServerTls, Tls};

/// A connection; see the module.
pub(super) struct Stream {
    socket: TcpStream,
    tls: Option<Box<Tls>>,
}

/// A socket as a non-blocking reader and writer.
struct NonBlockingStream<'a>(&'a TcpStream);

impl Stream {
    /// An accepted connection.
    ///
    /// # Errors
    /// No random numbers are available.
    pub(super) fn accepted(socket: TcpStream, tls: Option<&ServerTls>) -> io::Result<Self> {
        let tls = tls.map(|config| Tls::server(config).map(Box::new)).transpose()?;
        Ok(Self { socket, tls })
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(tls) = &mut this.tls else { return Pin::new(&mut this.socket).poll_read(cx, into) };
        loop {
            match tls
                .read(&mut NonBlockingStream(&this.socket), into.remaining(), |piece| into.put_slice(piece))
            {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(this.socket.poll_read_ready(cx))?;
                }
                other => return Poll::Ready(other.map(drop)),
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let Some(tls) = &mut this.tls else { return Pin::new(&mut this.socket).poll_write(cx, bytes) };
        loop {
            match tls.write(&mut NonBlockingStream(&this.socket), &[io::IoSlice::new(bytes)]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(this.socket.poll_write_ready(cx))?;
                }
                other => return Poll::Ready(other),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(tls) = &mut this.tls else { return Poll::Ready(Ok(())) };
        while !tls.flush(&mut NonBlockingStream(&this.socket))? {
            ready!(this.socket.poll_write_ready(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &mut self.tls {
            tls.end();
        }
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}

impl Read for NonBlockingStream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for NonBlockingStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
