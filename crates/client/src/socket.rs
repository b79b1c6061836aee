//! One socket: opening, then bytes both ways without waiting; through TLS, if the client was told to.

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
use zerohop_tls::{ClientTls, Tls, host_of};

/// Room made for each read.
const READ_BYTES: usize = 64 << 10;

/// Most pieces of one write.
const PIECES_MAX: usize = 64;

pub(crate) struct Socket {
    pub(crate) id: ConnectionId,
    pub(crate) input: BytesMut,
    /// Bytes that the next frame needs in all.
    pub(crate) need: usize,
    output: VecDeque<Bytes>,
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

/// Bytes to make room for where so many have come of a frame that needs `need`. Of a large one no more than its end: room for what
/// follows would move all of it.
fn room(need: usize, come: usize) -> usize {
    match need.saturating_sub(come) {
        left if need > READ_BYTES && left > 0 => left,
        _ => READ_BYTES,
    }
}

/// A stream as one that does not wait.
struct NoWait<'a>(&'a TcpStream);

impl Socket {
    pub(crate) fn open(id: ConnectionId, address: Arc<str>, tls: Option<&ClientTls>, waker: Waker) -> Self {
        // Before it is opened, so that what is wrong with the address does not look like what is wrong with the server.
        let tls = tls.map(|config| Tls::client(config, host_of(&address)).map(Box::new)).transpose();
        let opening = async move {
            let tls = tls?;
            let stream = TcpStream::connect(&*address).await?;
            stream.set_nodelay(true)?;
            Ok(OpenSocket { stream, tls })
        };
        let state = SocketState::Opening(Box::pin(opening));
        Self { id, input: BytesMut::new(), need: 0, output: VecDeque::new(), state, waker }
    }

    /// Goes on opening. `Ready(Ok)` once, when it is open.
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

    /// Reads what is there, at most about [`READ_BYTES`] or the frame that is needed. `Ready(Ok(0))`: the end.
    pub(crate) fn poll_read(&mut self) -> Poll<io::Result<usize>> {
        let SocketState::Open(open) = &mut self.state else { return Poll::Pending };
        let room = room(self.need, self.input.len());
        self.input.reserve(room);
        loop {
            // What was decrypted already is told by no readiness.
            let has_more = open.tls.as_mut().is_some_and(|tls| tls.has_more());
            if !has_more && open.stream.poll_read_ready(&mut Context::from_waker(&self.waker))?.is_pending() {
                return Poll::Pending;
            }
            let read = match &mut open.tls {
                // One that brings less than there is room for has taken all: it asks the system only once.
                None => {
                    let read = pin!(open.stream.read_buf(&mut self.input));
                    match read.poll(&mut Context::from_waker(&self.waker)) {
                        Poll::Ready(read) => read,
                        Poll::Pending => return Poll::Pending,
                    }
                }
                Some(tls) => {
                    let input = &mut self.input;
                    tls.read(&mut NoWait(&open.stream), room, |piece| input.extend_from_slice(piece))
                }
            };
            match read {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.output.push_back(bytes);
        }
    }

    /// Writes what the socket takes; the waker tells when it takes more.
    pub(crate) fn write(&mut self) -> io::Result<()> {
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
                let taken = written.min(front.len());
                front.advance(taken);
                written -= taken;
                if front.is_empty() {
                    self.output.pop_front();
                }
            }
        }
        // What is encrypted and was not taken, which may also be of the handshake.
        if let Some(tls) = &mut open.tls {
            while !tls.flush(&mut NoWait(&open.stream))? {
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
            Some(tls) => tls.write(&mut NoWait(&self.stream), pieces),
        }
    }
}

impl Read for NoWait<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for NoWait<'_> {
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
    fn room_is_made_for_the_end_of_a_large_frame_and_no_more() {
        let large = 40 * READ_BYTES;
        assert_eq!(room(large, 100), large - 100);
        assert_eq!(room(large, large - 1), 1);
        for (need, come) in [(0, 0), (48, 10), (READ_BYTES, 100), (large, large)] {
            assert_eq!(room(need, come), READ_BYTES);
        }
    }
}
