//! What a gateway counts since its start.

mod request;
mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zerohop_monitoring::LatencyHistogram;
use zerohop_objects::{ObjectError, SweepReport};

pub(crate) use self::request::RequestFacts;
pub(crate) use self::text::text;

/// Classes of statuses; `none`: the client was gone before its answer.
const STATUSES: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "none"];

/// The operation of a request that ended before it was known, such as one with a wrong signature.
const UNKNOWN: &str = "unknown";

/// The requests of one operation that have ended.
#[derive(Clone, Debug, Default)]
struct OperationFigures {
    by_status: [u64; STATUSES.len()],
    times_us: LatencyHistogram,
}

/// The figures of a gateway, which all of its tasks share.
#[derive(Debug, Default)]
pub(crate) struct GatewayMetrics {
    /// By names of s3s, of which there are few: no name comes from a client.
    operations: Mutex<BTreeMap<String, OperationFigures>>,
    waiting: AtomicU64,
    under_way: AtomicU64,
    connections: AtomicU64,
    connections_accepted: AtomicU64,
    connections_refused: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    sweeps: AtomicU64,
    failed_sweeps: AtomicU64,
    removed_bodies: AtomicU64,
    users_unknown: AtomicU64,
    is_stopping: AtomicBool,
}

/// A connection that is open, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<GatewayMetrics>);

fn add(figure: &AtomicU64, number: u64) {
    figure.fetch_add(number, Ordering::Relaxed);
}

impl GatewayMetrics {
    /// Counts a connection, which is open until the result is dropped.
    pub(crate) fn connection_opened(self: &Arc<Self>) -> OpenConnection {
        add(&self.connections_accepted, 1);
        add(&self.connections, 1);
        OpenConnection(Arc::clone(self))
    }

    pub(crate) fn connection_refused(&self) {
        add(&self.connections_refused, 1);
    }

    /// A request has come. It waits until it [begins](Self::request_begun).
    pub(crate) fn request_came(&self) {
        add(&self.waiting, 1);
    }

    pub(crate) fn request_begun(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        add(&self.under_way, 1);
    }

    /// A request has ended, with this status; `has_begun`: it did not end while it waited.
    pub(crate) fn request_ended(
        &self,
        has_begun: bool,
        operation: Option<&str>,
        status: Option<u16>,
        time: Duration,
    ) {
        let figure = if has_begun { &self.under_way } else { &self.waiting };
        figure.fetch_sub(1, Ordering::Relaxed);
        let class = match status.map(|status| status / 100) {
            Some(0..=2) => 0,
            Some(3) => 1,
            Some(4) => 2,
            Some(_) => 3,
            None => 4,
        };
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = operations.entry(operation.unwrap_or(UNKNOWN).to_owned()).or_default();
        figures.by_status[class] += 1;
        figures.times_us.count(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn received(&self, bytes: u64) {
        add(&self.received_bytes, bytes);
    }

    pub(crate) fn sent(&self, bytes: u64) {
        add(&self.sent_bytes, bytes);
    }

    pub(crate) fn swept(&self, result: &Result<SweepReport, ObjectError>) {
        add(&self.sweeps, 1);
        match result {
            Ok(report) => add(&self.removed_bodies, report.bodies),
            Err(_) => add(&self.failed_sweeps, 1),
        }
    }

    pub(crate) fn users_unknown(&self) {
        add(&self.users_unknown, 1);
    }

    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
