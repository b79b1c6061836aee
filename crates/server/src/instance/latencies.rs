//! Times from the arrival of a client's request to its answer, by class of operation.
//!
//! The clock is read at the first request and at the end of a batch of the event loop, not for every request. Nothing
//! is stored for each request. In a batch the first request of a class that waits, such as for a flush or for other
//! replicas, stands for all of that class. A request that is answered within its call has the time of its batch.

use std::collections::BTreeMap;

use zerohop_monitoring::LatencyHistogram;
use zerohop_partition::Token;
use zerohop_system::clock::Stopwatch;
use zerohop_wire::Message;
use zerohop_wire::messages::Query;

/// A class of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationClass {
    Read,
    /// A read that waits for a record to reach a state, or for changes.
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
            Message::Read { read, .. } if matches!(read.query, Query::Wait(_) | Query::UpdateLock(_)) => {
                Some(Self::Wait)
            }
            Message::Changes(_) => Some(Self::Wait),
            Message::Read { .. } | Message::Snapshot(_) => Some(Self::Read),
            Message::Scan(_) | Message::Chunks(_) => Some(Self::Scan),
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

/// A request that waits for its answer, for all that came with it.
#[derive(Clone, Copy, Debug)]
struct Representative {
    class: OperationClass,
    /// The time of its batch in microseconds.
    begun_us: u64,
    /// The number of requests that it stands for; 0 until its batch ends.
    count: u64,
}

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
    /// Number of requests of this batch that wait, by class, and the first of them.
    waiting: [(u64, RequestKey); OperationClass::ALL.len()],
    pending: BTreeMap<RequestKey, Representative>,
    /// Those that were answered in this batch.
    ended: Vec<Representative>,
}

/// A connection, and a request of it.
pub(crate) type RequestKey = (u64, u64);

#[inline]
pub(crate) fn key(to: Token) -> RequestKey {
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
            waiting: Default::default(),
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

    /// A request of this class is about to be processed.
    #[inline]
    pub(crate) fn begin(&mut self, to: Token, class: Option<OperationClass>) {
        self.current = class.map(|class| (key(to), class));
    }

    /// The request has been processed.
    #[inline]
    pub(crate) fn end_call(&mut self) {
        let Some((key, class)) = self.current.take() else { return };
        let (count, first) = &mut self.waiting[class as usize];
        *count += 1;
        if *count == 1 {
            *first = key;
            self.pending.insert(key, Representative { class, begun_us: self.batch_us, count: 0 });
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
            _ if self.pending.is_empty() => {}
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
        for (class, (count, first)) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if count == 0 {
                continue;
            }
            // Only a representative of this batch has no count yet.
            let of_this_batch = |one: &&mut Representative| one.class as usize == class && one.count == 0;
            let answered = self.ended.iter_mut().find(of_this_batch);
            if let Some(one) = answered.or_else(|| self.pending.get_mut(&first)) {
                one.count = count;
            }
        }
        for one in self.ended.drain(..) {
            self.histograms[one.class as usize].count_times(now_us.saturating_sub(one.begun_us), one.count);
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
        let lookup = OperationClass::of(&read(Query::Lookup));
        // Two reads are answered at once, at the end of a batch of 100 microseconds.
        for request in 1..=2 {
            latencies.begin(token(1, request), lookup);
            latencies.answered(token(1, request));
            latencies.end_call();
        }
        // Three more wait; the first of them stands for all.
        let wait = |latencies: &mut OperationLatencies, waiting: &[(u64, u64)]| {
            for (connection, request) in waiting {
                latencies.begin(token(*connection, *request), lookup);
                latencies.end_call();
            }
            assert_eq!(latencies.pending.len(), 1);
        };
        wait(&mut latencies, &[(1, 3), (1, 4), (2, 3)]);
        assert!(!latencies.has_ended());
        latencies.count_batch(1_100);
        latencies.answered(token(2, 3));
        latencies.answered(token(1, 3));
        assert!(latencies.has_ended() && latencies.pending.is_empty());
        latencies.count_batch(6_000);
        // Two are answered in their own batch.
        latencies.batch_us = 7_000;
        wait(&mut latencies, &[(1, 5), (1, 6)]);
        latencies.answered(token(1, 5));
        latencies.count_batch(7_010);
        let [(class, histogram)] = latencies.histograms()[..] else { panic!("other classes") };
        let (sum, count, _) = histogram.parts();
        assert_eq!((class, sum, count), (OperationClass::Read, 2 * 100 + 3 * 5_000 + 2 * 10, 7));
        // Of those that follow, one is dropped, and one loses its connection.
        wait(&mut latencies, &[(1, 7)]);
        latencies.dropped(token(1, 7));
        latencies.count_batch(8_000);
        wait(&mut latencies, &[(2, 8)]);
        latencies.closed(2);
        latencies.answered(token(2, 8));
        assert!(!latencies.has_ended() && latencies.pending.is_empty());
    }
}
