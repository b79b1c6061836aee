//! The operations of clients within the measured time, and their figures.

use std::time::{Duration, Instant};

use bench_common::histogram::Histogram;
use bench_common::process::now;
use bench_common::reading::Measurement;

use crate::Orders;
use crate::layout::{AcknowledgedTotals, Scope};
use crate::limits::WARM_UP;

/// The measured time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
}

impl Window {
    /// After a warm-up.
    pub(crate) fn from_now(orders: &Orders) -> Window {
        let begin = now() + Duration::from_secs_f64(orders.seconds * WARM_UP);
        Window { begin, end: begin + Duration::from_secs_f64(orders.seconds) }
    }
}

/// The results of one client, or of all.
#[derive(Default)]
pub(crate) struct ClientFigures {
    /// Everything, with the warm-up: all of it is verified.
    pub(crate) tally: AcknowledgedTotals,
    pub(crate) count: u64,
    /// Attempts of all these operations; more than the count if some were repeated.
    pub(crate) attempts: u64,
    /// Operations that always lost to a conflict.
    pub(crate) given_up: u64,
    /// Latencies of operations that ended within the measured time.
    pub(crate) latencies: Histogram,
}

impl ClientFigures {
    /// Counts an operation that has ended.
    pub(crate) fn finished(&mut self, window: &Window, started: Instant, ended: Instant) {
        self.count += 1;
        if ended >= window.begin && ended < window.end {
            self.latencies.record((ended - started).as_nanos() as u64, 1);
        }
    }

    pub(crate) fn merge(&mut self, other: &ClientFigures) {
        self.tally.merge(&other.tally);
        self.count += other.count;
        self.attempts += other.attempts;
        self.given_up += other.given_up;
        self.latencies.add(&other.latencies);
    }
}

/// The figures of events.
pub(crate) fn put(
    reading: &mut Measurement,
    scope: Scope,
    done: &ClientFigures,
    ran: Duration,
    orders: &Orders,
) {
    let name = match scope {
        Scope::AllLevels => "all levels",
        Scope::Global => "global",
    };
    let each = |sum: f64| sum / done.count.max(1) as f64;
    reading.put(&format!("{name} K op/s"), done.latencies.count() as f64 / orders.seconds / 1e3);
    reading.put(&format!("{name} p50 ms"), done.latencies.percentile(0.5) as f64 / 1e6);
    reading.put(&format!("{name} p99 ms"), done.latencies.percentile(0.99) as f64 / 1e6);
    reading.put(&format!("{name}: server us of CPU"), each(ran.as_secs_f64() * 1e6));
    if done.attempts > 0 {
        reading.put(&format!("{name}: attempts an event"), each(done.attempts as f64));
        reading.put(&format!("{name}: given up"), done.given_up as f64);
    }
}
