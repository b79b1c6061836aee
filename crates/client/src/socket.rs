//! One socket: opening, then bytes both ways without waiting.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use tokio::net::TcpStream;
use zerohop_session::ConnectionId;

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
    state: State,
    waker: Waker,
}

enum State {
    Opening(Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>),
    Open(TcpStream),
}

impl Socket {
    pub(crate) fn open(id: ConnectionId, address: Arc<str>, waker: Waker) -> Self {
        let opening = async move {
            let stream = TcpStream::connect(&*address).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let state = State::Opening(Box::pin(opening));
        Self { id, input: BytesMut::new(), need: 0, output: VecDeque::new(), state, waker }
    }

    /// Goes on opening. `Ready(Ok)` once, when it is open.
    pub(crate) fn poll_open(&mut self) -> Poll<io::Result<()>> {
        let State::Opening(opening) = &mut self.state else { return Poll::Pending };
        match opening.as_mut().poll(&mut Context::from_waker(&self.waker)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(stream)) => {
                self.state = State::Open(stream);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Reads what is there, at most about [`READ_BYTES`] or the frame that is needed. `Ready(Ok(0))`: the end.
    pub(crate) fn poll_read(&mut self) -> Poll<io::Result<usize>> {
        let State::Open(stream) = &self.state else { return Poll::Pending };
        let room = READ_BYTES.max(self.need.saturating_sub(self.input.len()));
        self.input.reserve(room);
        loop {
            if stream.poll_read_ready(&mut Context::from_waker(&self.waker))?.is_pending() {
                return Poll::Pending;
            }
            match stream.try_read_buf(&mut self.input) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
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
        let State::Open(stream) = &self.state else { return Ok(()) };
        while !self.output.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let count = self.output.len().min(PIECES_MAX);
            for (piece, bytes) in pieces.iter_mut().zip(&self.output) {
                *piece = IoSlice::new(bytes);
            }
            let mut written = match stream.try_write_vectored(&pieces[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if stream.poll_write_ready(&mut Context::from_waker(&self.waker))?.is_pending() {
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
        Ok(())
    }
}
