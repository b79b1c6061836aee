//! What Python gets for a log, a reader and a cursor. The methods are in [`crate::log`].

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use pyo3::prelude::*;
use tokio::sync::Mutex;
use zerohop_log_client::{LogClient, LogPopper, LogProducer, LogReader};

use crate::core::Core;
use crate::maintenance::OwnedByProcess;

/// Batches of one log that are appended at the same time. Each of these producers leaves a record in the partitions that it appends to.
const PRODUCERS: usize = 8;

/// An open log.
pub(crate) struct OpenLog {
    pub(crate) name: String,
    pub(crate) log: LogClient,
    pub(crate) producers: Vec<Mutex<LogProducer>>,
    pub(crate) next_producer: AtomicUsize,
}

/// A log. Every operation returns its result, or for an event loop a future of it.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeLog {
    pub(crate) core: Arc<Core>,
    pub(crate) open: OwnedByProcess<Arc<OpenLog>>,
}

/// A reader of partitions of a log.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeLogReader {
    pub(crate) core: Arc<Core>,
    pub(crate) reader: OwnedByProcess<Arc<(String, Mutex<LogReader>)>>,
}

/// A reader of a cursor that others share.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeLogPopper {
    pub(crate) core: Arc<Core>,
    pub(crate) popper: OwnedByProcess<Arc<(String, Mutex<LogPopper>)>>,
}

impl OpenLog {
    pub(crate) fn new(name: String, log: LogClient) -> Self {
        let producers = (0..PRODUCERS).map(|_| Mutex::new(LogProducer::new(log.clone()))).collect();
        Self { name, log, producers, next_producer: AtomicUsize::new(0) }
    }
}

impl NativeLog {
    pub(crate) fn new(core: Arc<Core>, open: OpenLog) -> Self {
        Self { core, open: OwnedByProcess::new(Arc::new(open)) }
    }
}

impl NativeLogReader {
    pub(crate) fn new(core: Arc<Core>, name: String, reader: LogReader) -> Self {
        Self { core, reader: OwnedByProcess::new(Arc::new((name, Mutex::new(reader)))) }
    }
}
