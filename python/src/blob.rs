//! Operations on blobs: what is asked of one by its name, and the listing of names.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::Bytes;
use pyo3::prelude::*;
use tokio::sync::{Mutex, mpsc};
use zerohop_client::{Blob, Error, Keyspace};

use crate::answer::Answer;
use crate::core::Core;
use crate::memory::Memory;
use crate::number::NumberChange;
use crate::problem::Problem;

/// Chunks of one write that are under way at once.
const WRITES_AHEAD: usize = 8;

/// What is asked of a blob.
pub(crate) enum BlobOperation {
    Stat,
    Create {
        /// `None`: as the keyspace says.
        chunk_bits: Option<u8>,
        attributes: Vec<u8>,
    },
    /// Bytes from an offset on, into memory, as far as there are any. How many.
    ReadInto {
        offset: u64,
        into: Memory,
    },
    /// So many bytes from an offset on.
    Read {
        offset: u64,
        length: u64,
    },
    Write {
        offset: u64,
        bytes: Memory,
    },
    Append {
        bytes: Memory,
    },
    Truncate {
        size: u64,
    },
    Describe {
        attributes: Vec<u8>,
    },
    Transform(NumberChange),
    Delete,
}

impl BlobOperation {
    pub(crate) async fn run(&self, keyspace: &Keyspace, name: Bytes) -> Result<Answer, Problem> {
        let blob = keyspace.blob(name);
        Ok(match self {
            Self::Stat => Answer::Blob(blob.stat().await?),
            Self::Create { chunk_bits, attributes } => Answer::Blob(Some(match chunk_bits {
                Some(bits) => blob.create_with(*bits, attributes).await?,
                None => blob.create(attributes).await?,
            })),
            Self::ReadInto { offset, into } => Answer::Number(read_into(&blob, *offset, into).await?),
            Self::Read { offset, length } => {
                Answer::Bytes(Some(blob.read_at(*offset, *length).await?.read_to_end().await?))
            }
            Self::Write { offset, bytes } => {
                write(&blob, *offset, bytes).await?;
                Answer::Nothing
            }
            Self::Append { bytes } => Answer::Number(blob.append(bytes.slice(0, bytes.len())).await?),
            Self::Truncate { size } => {
                blob.truncate(*size).await?;
                Answer::Nothing
            }
            Self::Describe { attributes } => {
                blob.set_attributes(attributes).await?;
                Answer::Nothing
            }
            Self::Transform(change) => change.of_blob(&blob).await?,
            Self::Delete => Answer::Flag(blob.delete().await?),
        })
    }
}

async fn read_into(blob: &Blob<'_>, offset: u64, into: &Memory) -> Result<u64, Error> {
    let mut pieces = blob.read_at(offset, into.len() as u64).await?;
    let mut at = 0;
    while let Some(piece) = pieces.next_piece().await? {
        at += into.fill(at, &piece);
    }
    Ok(at as u64)
}

/// A write that is cut into pieces where chunks end.
struct Pieces<'a> {
    blob: &'a Blob<'a>,
    offset: u64,
    bytes: &'a Memory,
    chunk_bytes: u64,
    /// Bytes of piece 0, which goes up to the end of the chunk in which the bytes begin.
    first: u64,
    count: u64,
    /// The piece that is taken next.
    next: AtomicU64,
}

/// Writes chunk by chunk, several at once. Dropped or failed half-way, some chunks are written and others are not.
async fn write(blob: &Blob<'_>, offset: u64, bytes: &Memory) -> Result<(), Error> {
    let length = bytes.len() as u64;
    let chunk_bytes = match blob.stat().await? {
        Some(info) if length > 0 => info.chunk_bytes,
        // It says what is wrong.
        _ => return blob.write_at(offset, &[]).await,
    };
    let first = (chunk_bytes - offset % chunk_bytes).min(length);
    let count = 1 + (length - first).div_ceil(chunk_bytes);
    let pieces = Pieces { blob, offset, bytes, chunk_bytes, first, count, next: AtomicU64::new(0) };
    all((0..WRITES_AHEAD.min(count as usize)).map(|_| Box::pin(pieces.write())).collect()).await
}

impl Pieces<'_> {
    /// Writes one after the other, until all are taken.
    async fn write(&self) -> Result<(), Error> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return Ok(());
            }
            let (at, room) = match number {
                0 => (0, self.first),
                number => (self.first + (number - 1) * self.chunk_bytes, self.chunk_bytes),
            };
            self.blob.write_at(self.offset + at, self.bytes.slice(at as usize, room as usize)).await?;
        }
    }
}

/// Waits for all, or for the first that fails; the others are dropped then.
async fn all<F: Future<Output = Result<(), Error>> + Unpin>(mut lanes: Vec<F>) -> Result<(), Error> {
    poll_fn(|cx| {
        let mut failed = None;
        lanes.retain_mut(|lane| match Pin::new(lane).poll(cx) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                failed = failed.take().or(result.err());
                false
            }
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if lanes.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}

/// A listing of blobs that is under way.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeBlobList {
    core: Arc<Core>,
    list: Arc<Mutex<Listing>>,
}

/// A listing borrows its keyspace: so it lives in a future that owns that, and hands over page after page.
struct Listing {
    producer: Pin<Box<dyn Future<Output = ()> + Send>>,
    pages: mpsc::Receiver<Page>,
}

type Page = Result<Option<Vec<Bytes>>, Error>;

#[pymethods]
impl NativeBlobList {
    /// The next names, in their order, or a future of them; `None` at the end.
    fn next_page(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let list = Arc::clone(&self.list);
        self.core.run(py, async move {
            list.lock().await.next_page().await.map(Answer::Values).map_err(Problem::from).into()
        })
    }
}

impl NativeBlobList {
    pub(crate) fn new(core: Arc<Core>, keyspace: Arc<Keyspace>, prefix: Bytes, page: Option<u32>) -> Self {
        let (sender, pages) = mpsc::channel(1);
        let producer = Box::pin(async move {
            let mut list = keyspace.list_blobs(prefix);
            if let Some(names) = page {
                list = list.page_names(names);
            }
            loop {
                let page = list.next_page().await;
                let is_end = matches!(page, Ok(None));
                if sender.send(page).await.is_err() || is_end {
                    return;
                }
            }
        });
        Self { core, list: Arc::new(Mutex::new(Listing { producer, pages })) }
    }
}

impl Listing {
    async fn next_page(&mut self) -> Page {
        poll_fn(|cx| {
            if let Poll::Ready(Some(page)) = self.pages.poll_recv(cx) {
                return Poll::Ready(page);
            }
            if self.pages.is_closed() {
                return Poll::Ready(Ok(None));
            }
            let ended = self.producer.as_mut().poll(cx).is_ready();
            match self.pages.poll_recv(cx) {
                Poll::Ready(Some(page)) => Poll::Ready(page),
                Poll::Ready(None) => Poll::Ready(Ok(None)),
                Poll::Pending if ended => Poll::Ready(Ok(None)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}
