//! The metrics of a gateway as text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use zerohop_monitoring::{Family, MetricsCollector, MetricsEncoder, encode_metrics};

use super::{GatewayMetrics, OperationFigures, STATUSES};

/// A figure: name, help, and the function that reads it.
type GatewayFigure = (&'static str, &'static str, fn(&GatewayMetrics) -> &AtomicU64);

const GAUGES: [GatewayFigure; 3] = [
    ("s3_connections", "Connections of clients of S3 that are open", |metrics| &metrics.connections),
    ("s3_requests_waiting", "Requests that wait for others to end", |metrics| &metrics.waiting),
    (
        "s3_requests_under_way",
        "Requests that do not wait, and whose answers have not been sent completely",
        |metrics| &metrics.under_way,
    ),
];

const COUNTERS: [GatewayFigure; 8] = [
    ("s3_connections_accepted", "Connections of clients accepted", |metrics| &metrics.connections_accepted),
    ("s3_connections_refused", "Connections refused because of their limit", |metrics| {
        &metrics.connections_refused
    }),
    ("s3_received_bytes", "Bytes of bodies of requests", |metrics| &metrics.received_bytes),
    ("s3_sent_bytes", "Bytes of bodies of answers", |metrics| &metrics.sent_bytes),
    ("s3_sweeps", "Sweeps for bodies that nothing names", |metrics| &metrics.sweeps),
    ("s3_sweeps_failed", "Sweeps that failed", |metrics| &metrics.failed_sweeps),
    ("s3_bodies_removed", "Bodies that sweeps of this gateway have deleted", |metrics| {
        &metrics.removed_bodies
    }),
    ("s3_users_unknown", "Requests for which the gateway could not find out who its users are", |metrics| {
        &metrics.users_unknown
    }),
];

/// The figures of one scrape.
#[derive(Debug)]
struct GatewaySnapshot {
    metrics: Arc<GatewayMetrics>,
    operations: BTreeMap<String, OperationFigures>,
    is_serving: bool,
}

/// The text; `is_serving`: the gateway is healthy.
///
/// # Errors
/// Those of a writer; a string never fails.
pub(crate) fn text(metrics: &Arc<GatewayMetrics>, is_serving: bool) -> Result<String, fmt::Error> {
    let operations = metrics.operations.lock().unwrap_or_else(PoisonError::into_inner).clone();
    encode_metrics(GatewaySnapshot { metrics: Arc::clone(metrics), operations, is_serving })
}

impl MetricsCollector for GatewaySnapshot {
    fn encode(&self, mut encoder: MetricsEncoder<'_>) -> fmt::Result {
        let none = Vec::new();
        let mut family = Family::gauge(&mut encoder, "build_info", "1; the labels say which program runs")?;
        family.gauge_of(&vec![("version", env!("CARGO_PKG_VERSION"))], 1)?;
        let help = "Whether the gateway reaches the cluster";
        Family::gauge(&mut encoder, "s3_serving", help)?.gauge_of(&none, u64::from(self.is_serving))?;
        for (name, help, read) in GAUGES {
            let value = read(&self.metrics).load(Ordering::Relaxed);
            Family::gauge(&mut encoder, name, help)?.gauge_of(&none, value)?;
        }
        for (name, help, read) in COUNTERS {
            let value = read(&self.metrics).load(Ordering::Relaxed);
            Family::counter(&mut encoder, name, help)?.counter_of(&none, value)?;
        }
        let help = "Requests that have ended, by operation and class of status";
        let mut family = Family::counter(&mut encoder, "s3_requests", help)?;
        for (operation, figures) in &self.operations {
            for (status, count) in STATUSES.iter().zip(figures.by_status) {
                let labels = vec![("operation", operation.as_str()), ("status", *status)];
                family.counter_of(&labels, count)?;
            }
        }
        let help = "From the head of a request to the end of its answer, by operation";
        let mut family = Family::histogram(&mut encoder, "s3_request_seconds", help)?;
        for (operation, figures) in &self.operations {
            let (sum, count, buckets) = figures.times_us.seconds();
            family.histogram_of(&vec![("operation", operation)], (sum, count, &buckets))?;
        }
        Ok(())
    }
}
