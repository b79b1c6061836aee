//! Listings of blobs.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use pyo3::prelude::*;
use tokio::sync::{Mutex, mpsc};
use zerohop_client::{Error, Keyspace};

use crate::answer::PythonAnswer;
use crate::core::Core;
use crate::outcome;
use crate::problem::Problem;

/// A listing of blobs in progress.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeBlobList {
    core: Arc<Core>,
    list: Arc<Mutex<Listing>>,
}

/// A listing borrows its keyspace, so it lives in a future that owns both, and sends page after
/// page.
struct Listing {
    producer: Pin<Box<dyn Future<Output = ()> + Send>>,
    pages: mpsc::Receiver<Page>,
}

type Page = Result<Option<Vec<Bytes>>, Error>;

#[pymethods]
impl NativeBlobList {
    /// The next names, in order, or a future of them; `None` at the end.
    fn next_page(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let list = Arc::clone(&self.list);
        outcome::run(&self.core, py, async move {
            list.lock().await.next_page().await.map(PythonAnswer::Values).map_err(Problem::from).into()
        })
    }
}

impl NativeBlobList {
    pub(crate) fn new(
        core: Arc<Core>,
        keyspace: Arc<Keyspace>,
        prefix: Bytes,
        behind: Bytes,
        (page, unfinished): (Option<u32>, bool),
    ) -> Self {
        let (sender, pages) = mpsc::channel(1);
        let producer = Box::pin(async move {
            let mut list = keyspace.list_blobs(prefix).behind(behind);
            if unfinished {
                list = list.with_unfinished();
            }
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
