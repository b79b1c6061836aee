//! Where operations wait, by stage: recorded only while an operator observes it.
//!
//! ```text
//!   socket readable ─queue─▶ step ─log─▶ ─flush─▶ ─peers─▶ ─other─▶ answer ─socket─▶ written to the socket
//! ```
//!
//! Recording begins with a request for these figures and ends by itself [`RECORDING_MS`] after the last one. Without
//! it nothing is stored and no clock is read. While it lasts, the clock is read a few times for each request.
//!
//! Requests that wait on purpose ([`OperationClass::Wait`]) are left out, as are commands of other protocols.

use std::collections::{BTreeMap, VecDeque};

use zerohop_monitoring::LatencyHistogram;
use zerohop_partition::Token;
use zerohop_shard::FlushStage;
use zerohop_system::clock::Stopwatch;

use super::latencies::{OperationClass, RequestKey, key};
use super::limits::{FLUSH_ENDS_MAX, RECORDING_MS, UNWRITTEN_MAX};

/// A stage in which an operation waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitStage {
    /// From the turn of the event loop that found the connection readable to the operation's step.
    Queue,
    /// The step: it evaluates the operation, and appends what the operation writes to the log in memory.
    Log,
    /// From the step to the end of the flush that the answer waits for, in a `sync` keyspace.
    Flush,
    /// From then to the message of another instance that releases the answer.
    Peers,
    /// The same for another cause: a lock, a lease, a transaction over several partitions of this instance.
    Other,
    /// From the answer until the socket has accepted it.
    Socket,
}

impl WaitStage {
    const ALL: [WaitStage; 6] = [Self::Queue, Self::Log, Self::Flush, Self::Peers, Self::Other, Self::Socket];

    /// Its name in metrics.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Log => "log",
            Self::Flush => "flush",
            Self::Peers => "peers",
            Self::Other => "other",
            Self::Socket => "socket",
        }
    }
}

/// The histograms of stages, of times in microseconds.
pub(crate) type StageHistograms = [LatencyHistogram; WaitStage::ALL.len()];

/// Each stage with its histogram.
pub(crate) fn by_stage(histograms: &StageHistograms) -> impl Iterator<Item = (WaitStage, &LatencyHistogram)> {
    WaitStage::ALL.into_iter().zip(histograms)
}

/// The waits of an instance's operations; see the module.
#[derive(Debug, Default)]
pub(crate) struct StageWaits(Option<Box<Recording>>);

#[derive(Debug)]
struct Recording {
    clock: Stopwatch,
    /// When the recording ends, on the clock of the reactor.
    ends_ms: u64,
    histograms: StageHistograms,
    /// Since when the requests of the present connection wait. All times are in microseconds since the begin of the recording.
    arrived_us: u64,
    /// The request whose step runs.
    current: Option<CurrentStep>,
    /// The requests whose answers wait.
    pending: BTreeMap<RequestKey, PendingAnswer>,
    /// What the instance handles at present.
    cause: ReleaseCause,
    flushes: FlushTimes,
    /// Answers that were not written yet: the connection, and since when.
    unwritten: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct CurrentStep {
    request: RequestKey,
    begun_us: u64,
    is_synced: bool,
    wants_flush: bool,
}

#[derive(Clone, Copy, Debug)]
struct PendingAnswer {
    stepped_us: u64,
    is_synced: bool,
    /// The number of the flush that the answer waits for.
    flush: Option<u64>,
}

/// What releases a pending answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReleaseCause {
    /// The end of a flush, at this time.
    Flush(u64),
    /// A message of another instance.
    Peer,
    #[default]
    Other,
}

/// When the last flushes have ended.
#[derive(Debug, Default)]
struct FlushTimes {
    /// Number of flushes that have begun.
    begun: u64,
    /// The numbers of flushes that have ended, with their times; the oldest first.
    ended: VecDeque<(u64, u64)>,
}

impl FlushTimes {
    fn end(&mut self, now_us: u64) {
        if self.ended.len() == FLUSH_ENDS_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((self.begun, now_us));
    }

    /// When a flush has ended; of a flush that ended long ago, when a later one has.
    fn ended_us(&self, flush: u64) -> Option<u64> {
        let at = self.ended.partition_point(|(number, _)| *number < flush);
        self.ended.get(at).map(|(_, ended_us)| *ended_us)
    }
}

impl StageWaits {
    /// Records for another [`RECORDING_MS`]. Returns what was recorded so far.
    pub(crate) fn record(&mut self, now_ms: u64) -> StageHistograms {
        let recording = self.0.get_or_insert_with(Recording::begin);
        recording.ends_ms = now_ms + RECORDING_MS;
        recording.histograms
    }

    /// A turn of the event loop begins. Returns the time for [`StageWaits::connection_begins`].
    #[inline]
    pub(crate) fn turn_begins(&mut self, now_ms: u64) -> u64 {
        let Some(recording) = &mut self.0 else { return 0 };
        if now_ms >= recording.ends_ms {
            self.0 = None;
            return 0;
        }
        recording.cause = ReleaseCause::Other;
        recording.now_us()
    }

    /// Requests of a connection follow that has been readable since this time.
    #[inline]
    pub(crate) fn connection_begins(&mut self, arrived_us: u64) {
        if let Some(recording) = &mut self.0 {
            recording.arrived_us = arrived_us;
        }
    }

    /// The step of a request begins; `is_synced`: its keyspace is `sync`. Replicas in other keyspaces want flushes too, and no answer waits for
    /// these.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        to: Token,
        class: Option<OperationClass>,
        is_synced: impl FnOnce() -> bool,
    ) {
        let Some(recording) = &mut self.0 else { return };
        if class.is_some_and(|class| class != OperationClass::Wait) {
            let now_us = recording.now_us();
            recording.begin_step(key(to), is_synced(), now_us);
        }
    }

    /// The step has ended.
    #[inline]
    pub(crate) fn end_step(&mut self) {
        if let Some(recording) = &mut self.0 {
            let now_us = recording.now_us();
            recording.end_step(now_us);
        }
    }

    /// A message of another instance is handled from now on, or has been handled.
    #[inline]
    pub(crate) fn set_peer_message(&mut self, is_handled: bool) {
        if let Some(recording) = &mut self.0 {
            recording.cause = if is_handled { ReleaseCause::Peer } else { ReleaseCause::Other };
        }
    }

    /// A stage of a flush.
    #[inline]
    pub(crate) fn flush(&mut self, stage: FlushStage) {
        if let Some(recording) = &mut self.0 {
            let now_us = recording.now_us();
            recording.flush(stage, now_us);
        }
    }

    /// A request is answered.
    #[inline]
    pub(crate) fn answered(&mut self, to: Token) {
        if let Some(recording) = &mut self.0 {
            let now_us = recording.now_us();
            recording.answered(key(to), now_us);
        }
    }

    /// A request has no answer, because its client has it already.
    pub(crate) fn dropped(&mut self, to: Token) {
        let Some(recording) = &mut self.0 else { return };
        recording.current = recording.current.filter(|current| current.request != key(to));
        recording.pending.remove(&key(to));
    }

    /// A connection is closed: its requests have no answers.
    pub(crate) fn closed(&mut self, connection: u64) {
        let Some(recording) = &mut self.0 else { return };
        recording.pending.retain(|(of, _), _| *of != connection);
        recording.unwritten.retain(|(of, _)| *of != connection);
    }

    /// The answers of the turn were written to sockets; `has_unsent`: a connection's socket has not accepted all of its answers.
    #[inline]
    pub(crate) fn answers_sent(&mut self, has_unsent: impl Fn(u64) -> bool) {
        if let Some(recording) = &mut self.0
            && !recording.unwritten.is_empty()
        {
            let now_us = recording.now_us();
            recording.answers_sent(now_us, has_unsent);
        }
    }
}

impl Recording {
    fn begin() -> Box<Recording> {
        Box::new(Recording {
            clock: Stopwatch::start(),
            ends_ms: 0,
            histograms: StageHistograms::default(),
            arrived_us: 0,
            current: None,
            pending: BTreeMap::new(),
            cause: ReleaseCause::default(),
            flushes: FlushTimes::default(),
            unwritten: Vec::new(),
        })
    }

    fn now_us(&self) -> u64 {
        self.clock.elapsed().as_micros() as u64
    }

    fn count(&mut self, stage: WaitStage, from_us: u64, to_us: u64) {
        self.histograms[stage as usize].count(to_us.saturating_sub(from_us));
    }

    fn begin_step(&mut self, request: RequestKey, is_synced: bool, now_us: u64) {
        self.count(WaitStage::Queue, self.arrived_us, now_us);
        self.current = Some(CurrentStep { request, begun_us: now_us, is_synced, wants_flush: false });
    }

    fn end_step(&mut self, now_us: u64) {
        let Some(CurrentStep { request, begun_us, is_synced, wants_flush }) = self.current.take() else {
            return;
        };
        self.count(WaitStage::Log, begun_us, now_us);
        // A flush that is in progress began before the entry was appended.
        let flush = wants_flush.then_some(self.flushes.begun + 1);
        self.pending.insert(request, PendingAnswer { stepped_us: now_us, is_synced, flush });
    }

    fn flush(&mut self, stage: FlushStage, now_us: u64) {
        match stage {
            FlushStage::Wanted => {
                if let Some(current) = &mut self.current {
                    current.wants_flush = current.is_synced;
                }
            }
            FlushStage::Begun => self.flushes.begun += 1,
            FlushStage::Ended => {
                self.flushes.end(now_us);
                self.cause = ReleaseCause::Flush(now_us);
            }
            FlushStage::Notified => self.cause = ReleaseCause::Other,
        }
    }

    fn answered(&mut self, request: RequestKey, now_us: u64) {
        if let Some(current) = self.current
            && current.request == request
        {
            self.current = None;
            self.count(WaitStage::Log, current.begun_us, now_us);
        } else if let Some(answer) = self.pending.remove(&request) {
            self.released(answer, now_us);
        } else {
            return;
        }
        if self.unwritten.len() < UNWRITTEN_MAX {
            self.unwritten.push((request.0, now_us));
        }
    }

    fn released(&mut self, PendingAnswer { stepped_us, is_synced, flush }: PendingAnswer, now_us: u64) {
        let stage = match self.cause {
            ReleaseCause::Flush(ended_us) if is_synced => {
                return self.count(WaitStage::Flush, stepped_us, ended_us);
            }
            ReleaseCause::Peer => WaitStage::Peers,
            ReleaseCause::Flush(_) | ReleaseCause::Other => WaitStage::Other,
        };
        let flushed_us = flush.and_then(|flush| self.flushes.ended_us(flush));
        if let Some(flushed_us) = flushed_us {
            self.count(WaitStage::Flush, stepped_us, flushed_us);
        }
        self.count(stage, flushed_us.unwrap_or(stepped_us), now_us);
    }

    fn answers_sent(&mut self, now_us: u64, has_unsent: impl Fn(u64) -> bool) {
        let Recording { unwritten, histograms, .. } = self;
        unwritten.retain(|(connection, answered_us)| {
            let waits = has_unsent(*connection);
            if !waits {
                histograms[WaitStage::Socket as usize].count(now_us.saturating_sub(*answered_us));
            }
            waits
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_US: u64 = 10;

    /// Sum and count of each stage that has any.
    fn recorded(recording: &Recording) -> Vec<(&'static str, u64, u64)> {
        let all = by_stage(&recording.histograms).map(|(stage, histogram)| {
            let (sum, count, _) = histogram.parts();
            (stage.text(), sum, count)
        });
        all.filter(|(_, _, count)| *count > 0).collect()
    }

    /// A recording with a request that arrived at 100, whose step from 130 on has no answer.
    fn pending(request: RequestKey, is_synced: bool) -> Box<Recording> {
        let mut recording = Recording::begin();
        recording.arrived_us = 100;
        recording.begin_step(request, is_synced, 130);
        recording.flush(FlushStage::Wanted, 131);
        recording.end_step(130 + STEP_US);
        recording
    }

    #[test]
    fn request_that_is_answered_in_its_step_waits_in_queue_log_and_socket() {
        let mut recording = Recording::begin();
        recording.arrived_us = 100;
        recording.begin_step((1, 7), true, 130);
        recording.answered((1, 7), 135);
        recording.end_step(140);
        // The socket of another connection does not matter.
        recording.answers_sent(150, |connection| connection == 2);
        assert_eq!(recorded(&recording), [("queue", 30, 1), ("log", 5, 1), ("socket", 15, 1)]);
        assert!(recording.pending.is_empty() && recording.unwritten.is_empty());
    }

    #[test]
    fn answer_waits_for_the_flush_that_begins_after_its_step() {
        let mut recording = Recording::begin();
        recording.flush(FlushStage::Begun, 90);
        recording.arrived_us = 100;
        recording.begin_step((1, 7), true, 130);
        recording.flush(FlushStage::Wanted, 131);
        recording.end_step(140);
        recording.flush(FlushStage::Ended, 200);
        recording.flush(FlushStage::Notified, 201);
        recording.flush(FlushStage::Begun, 202);
        recording.flush(FlushStage::Ended, 500);
        recording.answered((1, 7), 503);
        recording.flush(FlushStage::Notified, 504);
        assert_eq!(recorded(&recording), [("queue", 30, 1), ("log", 10, 1), ("flush", 360, 1)]);
    }

    #[test]
    fn time_after_the_flush_is_that_of_the_peers() {
        let mut recording = pending((1, 7), true);
        recording.flush(FlushStage::Begun, 150);
        recording.flush(FlushStage::Ended, 300);
        recording.flush(FlushStage::Notified, 301);
        recording.cause = ReleaseCause::Peer;
        recording.answered((1, 7), 420);
        assert_eq!(
            recorded(&recording),
            [("queue", 30, 1), ("log", 10, 1), ("flush", 160, 1), ("peers", 120, 1)]
        );
    }

    #[test]
    fn answer_of_other_durability_waits_for_no_flush() {
        use ReleaseCause::{Flush, Other, Peer};
        for (cause, stage) in [(Peer, "peers"), (Other, "other"), (Flush(400), "other")] {
            let mut recording = pending((1, 7), false);
            recording.flush(FlushStage::Begun, 150);
            recording.flush(FlushStage::Ended, 300);
            recording.cause = cause;
            recording.answered((1, 7), 420);
            assert_eq!(recorded(&recording)[2..], [(stage, 280, 1)]);
        }
    }

    #[test]
    fn answer_that_its_client_does_not_read_stays_in_the_socket_stage() {
        let mut recording = pending((1, 7), false);
        recording.answered((1, 7), 200);
        recording.answers_sent(210, |connection| connection == 1);
        recording.answers_sent(900, |_| false);
        assert_eq!(recorded(&recording).last(), Some(&("socket", 700, 1)));
    }

    #[test]
    fn only_the_ends_of_recent_flushes_are_kept() {
        let mut recording = pending((1, 7), true);
        for round in 1..=3 * FLUSH_ENDS_MAX as u64 {
            recording.flush(FlushStage::Begun, 1000 * round);
            recording.flush(FlushStage::Ended, 1000 * round + 500);
        }
        assert_eq!(recording.flushes.ended.len(), FLUSH_ENDS_MAX);
        let oldest_us = recording.flushes.ended[0].1;
        assert_eq!(recording.flushes.ended_us(1), Some(oldest_us));
        assert_eq!(recording.flushes.ended_us(recording.flushes.begun + 1), None);
    }

    #[test]
    fn recording_begins_with_a_request_and_ends_by_itself() {
        let token = |request| Token { connection: 1, request: zerohop_wire::ids::RequestId(request) };
        let mut waits = StageWaits::default();
        let write = |waits: &mut StageWaits, request| {
            waits.turn_begins(0);
            waits.begin(token(request), Some(OperationClass::Write), || false);
            waits.end_step();
            waits.answered(token(request));
            waits.answers_sent(|_| false);
        };
        let count = |histograms: StageHistograms| histograms[WaitStage::Socket as usize].parts().1;
        write(&mut waits, 1);
        assert!(waits.0.is_none(), "no figures were requested");
        assert_eq!(count(waits.record(1_000)), 0);
        write(&mut waits, 2);
        waits.begin(token(3), Some(OperationClass::Wait), || false);
        waits.end_step();
        waits.answered(token(3));
        assert_eq!(count(waits.record(2_000)), 1, "a request that waits on purpose is left out");
        waits.begin(token(4), Some(OperationClass::Read), || false);
        waits.end_step();
        waits.begin(token(5), Some(OperationClass::Read), || false);
        waits.end_step();
        waits.dropped(token(4));
        waits.closed(1);
        assert!(waits.0.as_ref().is_some_and(|recording| recording.pending.is_empty()));
        waits.turn_begins(2_000 + RECORDING_MS - 1);
        assert!(waits.0.is_some());
        assert_eq!(waits.turn_begins(2_000 + RECORDING_MS), 0);
        assert!(waits.0.is_none(), "nothing is left");
    }
}
