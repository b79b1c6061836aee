//! A connection to or from the manager's port: a socket, with or without TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use zerohop_tls::{ClientTls, FIRST_BYTE, Tls, host_of};

use super::shared::ManagerShared;

/// A connection; see the module.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    tls: Option<Box<Tls>>,
}

/// A socket as a non-blocking reader and writer.
struct NonBlockingStream<'a>(&'a TcpStream);

impl Stream {
    /// An accepted connection. Waits for its first byte, which shows whether the client uses TLS.
    pub(super) async fn accepted(socket: TcpStream, shared: &ManagerShared) -> io::Result<Stream> {
        let mut tls = None;
        if let Some(options) = &shared.about.tls {
            let mut first = [0; 1];
            if socket.peek(&mut first).await? == 1 && first[0] == FIRST_BYTE {
                tls = Some(Box::new(Tls::server(&options.server)?));
            }
        }
        Ok(Stream { socket, tls })
    }

    /// A connection that this side has opened to the manager at `address`, whose host its certificate must name.
    ///
    /// # Errors The host cannot be in a certificate.
    pub fn opened(socket: TcpStream, address: &str, tls: Option<&ClientTls>) -> io::Result<Stream> {
        let tls = tls.map(|config| Tls::client(config, host_of(address)).map(Box::new)).transpose()?;
        Ok(Stream { socket, tls })
    }

    /// The local address of the connection.
    pub(super) fn local_address(&self) -> Option<IpAddr> {
        self.socket.local_addr().ok().map(|local| local.ip())
    }

    /// Whether the connection has no TLS, although TLS is required of it.
    pub(super) fn lacks_required_tls(&self, shared: &ManagerShared) -> bool {
        let is_near = || self.socket.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
        self.tls.is_none() && shared.about.tls.as_ref().is_some_and(|tls| tls.refuses_bare(is_near()))
    }

    /// The next byte, without consuming it; `None`: the stream has ended.
    pub(super) async fn peek(&mut self) -> io::Result<Option<u8>> {
        let Some(tls) = &mut self.tls else {
            let mut first = [0; 1];
            return Ok((self.socket.peek(&mut first).await? == 1).then_some(first[0]));
        };
        loop {
            match tls.peek(&mut NonBlockingStream(&self.socket)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.socket.readable().await?,
                other => return other,
            }
        }
    }

    /// Waits until a read may return bytes.
    pub(super) async fn readable(&mut self) -> io::Result<()> {
        if self.tls.as_mut().is_some_and(|tls| tls.has_more()) {
            return Ok(());
        }
        self.socket.readable().await
    }

    /// Reads available bytes, up to the spare capacity of `into`, which must not be empty. Zero: the stream has ended.
    pub(super) fn try_read_buf(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.try_read_buf(into),
            Some(tls) => {
                let room = into.capacity() - into.len();
                tls.read(&mut NonBlockingStream(&self.socket), room, |piece| into.extend_from_slice(piece))
            }
        }
    }

    /// Writes all bytes.
    pub(super) async fn write_and_flush(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).await?;
        self.flush().await
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
