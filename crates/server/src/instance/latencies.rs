//! Times from the arrival of a client's request to its answer, by class of operation.
//!
//! The clock is read at the first request and at the end of a batch of the event loop, not for every request. A request that is answered within
//! its call only increments a counter; one that waits, such as for a flush or for other replicas, has an entry until its answer.

use std::collections::BTreeMap;

use zerohop_partition::Token;
use zerohop_system::clock::Stopwatch;
use zerohop_wire::Message;
use zerohop_wire::messages::Query;

use super::histogram::Histogram;

/// Times up to 2^25 microseconds (33 s) are distinguished.
const BUCKETS: usize = 27;

/// A class of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationClass {
    Read,
    /// A read that waits for a record to reach a state.
    Wait,
    Scan,
    Write,
    /// Several operations in one request.
    Batch,
    Transaction,
}

impl OperationClass {
    const ALL: [OperationClass; 6] =
        [Self::Read, Self::Wait, Self::Scan, Self::Write, Self::Batch, Self::Transaction];

    /// The class of a request; `None`: the request is not an operation on data.
    pub(crate) fn of(message: &Message<'_>) -> Option<OperationClass> {
        match message {
            Message::Read { read, .. } if matches!(read.query, Query::Wait { .. }) => Some(Self::Wait),
            Message::Read { .. } | Message::Snapshot(_) => Some(Self::Read),
            Message::Scan(_) => Some(Self::Scan),
            Message::Write { .. } => Some(Self::Write),
            Message::Batch(_) | Message::Gather(_) => Some(Self::Batch),
            Message::Transact(_) | Message::Stage(_) => Some(Self::Transaction),
            _ => None,
        }
    }

    /// Its name in metrics.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Wait => "wait",
            Self::Scan => "scan",
            Self::Write => "write",
            Self::Batch => "batch",
            Self::Transaction => "transaction",
        }
    }
}

/// A histogram of times in microseconds.
pub(crate) type LatencyHistogram = Histogram<BUCKETS>;

/// A request that waits for its answer: its class, and the time of its batch in microseconds.
type Pending = (OperationClass, u64);

/// The times; see the module.
#[derive(Debug)]
pub(crate) struct OperationLatencies {
    /// Runs since the start of the instance.
    clock: Stopwatch,
    /// The time of the first request of this batch, in microseconds of that clock.
    batch_us: u64,
    histograms: [LatencyHistogram; OperationClass::ALL.len()],
    /// The request that is being processed, until its answer.
    current: Option<(RequestKey, OperationClass)>,
    /// Number of requests of this batch that were answered within their call, by class.
    at_once: [u64; OperationClass::ALL.len()],
    pending: BTreeMap<RequestKey, Pending>,
    /// Earlier requests that were answered in this batch.
    ended: Vec<Pending>,
}

/// A connection, and a request of it.
type RequestKey = (u64, u64);

fn key(to: Token) -> RequestKey {
    (to.connection, to.request.0)
}

impl OperationLatencies {
    pub(crate) fn new() -> Self {
        OperationLatencies {
            clock: Stopwatch::start(),
            batch_us: 0,
            histograms: Default::default(),
            current: None,
            at_once: Default::default(),
            pending: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// The first request of a batch has come.
    pub(crate) fn begin_batch(&mut self) {
        self.batch_us = self.now_us();
    }

    fn now_us(&self) -> u64 {
        self.clock.elapsed().as_micros() as u64
    }

    /// A request is about to be processed.
    #[inline]
    pub(crate) fn begin(&mut self, to: Token, message: &Message<'_>) {
        self.current = OperationClass::of(message).map(|class| (key(to), class));
    }

    /// The request has been processed.
    #[inline]
    pub(crate) fn end_call(&mut self) {
        if let Some((key, class)) = self.current.take() {
            self.pending.insert(key, (class, self.batch_us));
        }
    }

    /// A request is answered.
    #[inline]
    pub(crate) fn answered(&mut self, to: Token) {
        match self.current {
            Some((current, class)) if current == key(to) => {
                self.current = None;
                self.at_once[class as usize] += 1;
            }
            _ => self.ended.extend(self.pending.remove(&key(to))),
        }
    }

    /// A request has no answer, because its client has it already.
    pub(crate) fn dropped(&mut self, to: Token) {
        self.current = self.current.filter(|(current, _)| *current != key(to));
        self.pending.remove(&key(to));
    }

    /// A connection is closed: its requests have no answers.
    pub(crate) fn closed(&mut self, connection: u64) {
        let of_it = self.pending.range((connection, 0)..=(connection, u64::MAX));
        let gone: Vec<RequestKey> = of_it.map(|(key, _)| *key).collect();
        for key in gone {
            self.pending.remove(&key);
        }
    }

    /// Whether a batch without requests has answered earlier ones.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Counts the answers of a batch, which are sent now. Returns the time since its first request, in microseconds.
    pub(crate) fn end_batch(&mut self) -> u64 {
        let now_us = self.now_us();
        self.count_batch(now_us);
        now_us.saturating_sub(self.batch_us)
    }

    fn count_batch(&mut self, now_us: u64) {
        let batch_us = self.batch_us;
        for (histogram, count) in self.histograms.iter_mut().zip(&mut self.at_once) {
            histogram.count_times(now_us.saturating_sub(batch_us), std::mem::take(count));
        }
        for (class, begun_us) in self.ended.drain(..) {
            self.histograms[class as usize].count(now_us.saturating_sub(begun_us));
        }
    }

    /// The histograms of classes that have had an answer.
    pub(crate) fn histograms(&self) -> Vec<(OperationClass, LatencyHistogram)> {
        let all = OperationClass::ALL.iter().zip(&self.histograms);
        all.filter(|(_, histogram)| histogram.parts().1 > 0).map(|(class, one)| (*class, *one)).collect()
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::ids::{RequestId, Timestamp};
    use zerohop_wire::messages::RecordRead;

    use super::*;

    fn token(connection: u64, request: u64) -> Token {
        Token { connection, request: RequestId(request) }
    }

    #[test]
    fn answers_are_counted_with_the_time_since_the_batch_of_their_request() {
        let mut latencies = OperationLatencies::new();
        latencies.batch_us = 1_000;
        let read = |query| Message::Read { seen: Timestamp::ZERO, read: RecordRead { key: b"k", query } };
        let lookup = read(Query::Lookup);
        // Two reads are answered at once, at the end of a batch of 100 microseconds.
        for request in 1..=2 {
            latencies.begin(token(1, request), &lookup);
            latencies.answered(token(1, request));
            latencies.end_call();
        }
        // Three more wait. One is answered in a later batch, one is dropped, and one loses its connection.
        for (connection, request) in [(1, 3), (1, 4), (2, 3)] {
            latencies.begin(token(connection, request), &lookup);
            latencies.end_call();
        }
        assert!(!latencies.has_ended());
        latencies.count_batch(1_100);
        latencies.answered(token(1, 3));
        latencies.dropped(token(1, 4));
        latencies.closed(2);
        latencies.answered(token(2, 3));
        assert!(latencies.has_ended() && latencies.pending.is_empty());
        latencies.count_batch(6_000);
        let [(class, histogram)] = latencies.histograms()[..] else { panic!("other classes") };
        let (sum, count, _) = histogram.parts();
        assert_eq!((class, sum, count), (OperationClass::Read, 2 * 100 + 5_000, 3));
    }
}
