//! One non-blocking socket: it connects, then transfers bytes in both directions, through TLS if the client is configured so.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use zerohop_session::ConnectionId;
use zerohop_tls::{ClientTls, Tls, fault_of, host_of};

/// Buffer space reserved for each read, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Maximum number of buffers of one write.
const PIECES_MAX: usize = 64;

pub(crate) struct Socket {
    pub(crate) id: ConnectionId,
    pub(crate) input: BytesMut,
    /// Total number of bytes that the next frame needs.
    pub(crate) need: usize,
    output: VecDeque<Bytes>,
    /// The error of a write with TLS. The server may have sent the reason before, so that the socket is read to its end first.
    write_error: Option<io::Error>,
    state: SocketState,
    waker: Waker,
}

enum SocketState {
    Opening(Pin<Box<dyn Future<Output = io::Result<OpenSocket>> + Send>>),
    Open(OpenSocket),
}

struct OpenSocket {
    stream: TcpStream,
    tls: Option<Box<Tls>>,
}

/// Returns the buffer space to reserve when `come` bytes of a frame of `need` bytes have arrived. For a large frame it is no more than the rest of
/// the frame: space for later frames would move all its bytes.
fn buffer_space(need: usize, come: usize) -> usize {
    match need.saturating_sub(come) {
        left if need > READ_BYTES && left > 0 => left,
        _ => READ_BYTES,
    }
}

/// A stream as a non-blocking reader and writer.
struct NonBlockingStream<'a>(&'a TcpStream);

impl Socket {
    pub(crate) fn open(id: ConnectionId, address: Arc<str>, tls: Option<&ClientTls>, waker: Waker) -> Self {
        // This comes before the connection attempt, so that an error in the address does not look like an error of the server.
        let tls = tls.map(|config| Tls::client(config, host_of(&address)).map(Box::new)).transpose();
        let opening = async move {
            let tls = tls?;
            let stream = TcpStream::connect(&*address).await?;
            stream.set_nodelay(true)?;
            Ok(OpenSocket { stream, tls })
        };
        let state = SocketState::Opening(Box::pin(opening));
        Self { id, input: BytesMut::new(), need: 0, output: VecDeque::new(), write_error: None, state, waker }
    }

    /// Continues to connect. Returns `Ready(Ok)` once, when the connection is open.
    pub(crate) fn poll_open(&mut self) -> Poll<io::Result<()>> {
        let SocketState::Opening(opening) = &mut self.state else { return Poll::Pending };
        match opening.as_mut().poll(&mut Context::from_waker(&self.waker)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(open)) => {
                self.state = SocketState::Open(open);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Reads available bytes, at most about [`READ_BYTES`] or the frame that is needed. `Ready(Ok(0))` means end of stream.
    pub(crate) fn poll_read(&mut self) -> Poll<io::Result<usize>> {
        let SocketState::Open(open) = &mut self.state else { return Poll::Pending };
        let room = buffer_space(self.need, self.input.len());
        self.input.reserve(room);
        loop {
            // Readiness of the socket says nothing about bytes that TLS has already decrypted.
            let has_more = open.tls.as_mut().is_some_and(|tls| tls.has_more());
            if !has_more && open.stream.poll_read_ready(&mut Context::from_waker(&self.waker))?.is_pending() {
                return Poll::Pending;
            }
            let read = match &mut open.tls {
                // A read that returns less than the reserved space has emptied the socket: one system call is enough.
                None => {
                    let read = pin!(open.stream.read_buf(&mut self.input));
                    match read.poll(&mut Context::from_waker(&self.waker)) {
                        Poll::Ready(read) => read,
                        Poll::Pending => return Poll::Pending,
                    }
                }
                Some(tls) => {
                    let input = &mut self.input;
                    tls.read(&mut NonBlockingStream(&open.stream), room, |piece| {
                        input.extend_from_slice(piece)
                    })
                }
            };
            match read {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if fault_of(&error).is_some() => return Poll::Ready(Err(error)),
                Ok(0) | Err(_) if self.write_error.is_some() => {
                    return Poll::Ready(self.write_error.take().map_or(read, Err));
                }
                read => return Poll::Ready(read),
            }
        }
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.output.push_back(bytes);
        }
    }

    /// Writes as much as the socket accepts; the waker fires when it accepts more. With TLS, [`Socket::poll_read`] reports the
    /// error.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if self.write_error.is_some() {
            self.output.clear();
            return Ok(());
        }
        match self.write_queued() {
            Err(error) if matches!(&self.state, SocketState::Open(OpenSocket { tls: Some(_), .. })) => {
                self.output.clear();
                self.write_error = Some(error);
                self.waker.wake_by_ref();
                Ok(())
            }
            result => result,
        }
    }

    fn write_queued(&mut self) -> io::Result<()> {
        let SocketState::Open(open) = &mut self.state else { return Ok(()) };
        while !self.output.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let count = self.output.len().min(PIECES_MAX);
            for (piece, bytes) in pieces.iter_mut().zip(&self.output) {
                *piece = IoSlice::new(bytes);
            }
            let mut written = match open.try_write(&pieces[..count]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if open.stream.poll_write_ready(&mut Context::from_waker(&self.waker))?.is_pending() {
                        return Ok(());
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            while let Some(front) = self.output.front_mut()
                && written > 0
            {
                let sent = written.min(front.len());
                front.advance(sent);
                written -= sent;
                if front.is_empty() {
                    self.output.pop_front();
                }
            }
        }
        // Encrypted bytes that the socket has not accepted yet; they may also belong to the handshake.
        if let Some(tls) = &mut open.tls {
            while !tls.flush(&mut NonBlockingStream(&open.stream))? {
                if open.stream.poll_write_ready(&mut Context::from_waker(&self.waker))?.is_pending() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl OpenSocket {
    fn try_write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.try_write_vectored(pieces),
            Some(tls) => tls.write(&mut NonBlockingStream(&self.stream), pieces),
        }
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

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_grows_only_for_the_rest_of_a_frame() {
        let large = 40 * READ_BYTES;
        assert_eq!(buffer_space(large, 100), large - 100);
        assert_eq!(buffer_space(large, large - 1), 1);
        for (need, come) in [(0, 0), (48, 10), (READ_BYTES, 100), (large, large)] {
            assert_eq!(buffer_space(need, come), READ_BYTES);
        }
    }
}
