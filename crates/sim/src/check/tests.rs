//! The checkers on hand-written histories: correct ones pass, wrong ones do not.

use bytes::Bytes;
use zerohop_base::time::Time;
use zerohop_placement::Durability;
use zerohop_session::{Reply, SessionError};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, MapEpoch, PartitionId, Timestamp};
use zerohop_wire::messages::{Condition, Expiry, Range, RecordType};

use super::{Findings, check};
use crate::history::{ClientCall, KeyspaceHistory, Loss, OperationEnd, Outage, RunHistory};
use crate::workload::operation::{RecordAction, RecordCall, WaitGoal};
use crate::workload::tokens::token;

/// A history under construction; times are in milliseconds.
struct HistoryBuilder {
    history: RunHistory,
}

const KEY: &[u8] = b"key";
const MS: u64 = 1000;

fn builder_with_durability(durability: Durability) -> HistoryBuilder {
    let keyspace =
        KeyspaceHistory { id: KeyspaceId(1), durability: vec![(Time(0), durability)], dropped: None };
    let ended = Time(1_000_000 * MS);
    HistoryBuilder { history: RunHistory { keyspaces: vec![keyspace], ended, ..RunHistory::default() } }
}

fn sync() -> HistoryBuilder {
    builder_with_durability(Durability::Sync)
}

impl HistoryBuilder {
    fn call(mut self, from: u64, to: Option<u64>, act: RecordAction, end: OperationEnd) -> Self {
        self.history.calls.push(ClientCall {
            client: Some(0),
            keyspace: KeyspaceId(1),
            partition: PartitionId(0),
            operation: RecordCall::new(KEY, act),
            invoked: Time(from * MS),
            deadline: Time(to.unwrap_or(1_000) * MS),
            returned: to.map(|to| Time(to * MS)),
            end,
            clock_ms: (from, to.unwrap_or(u64::MAX)),
        });
        self
    }

    fn of(mut self, key: &str) -> Self {
        self.last().operation.key = key.as_bytes().into();
        self
    }

    fn under(mut self, condition: Condition) -> Self {
        self.last().operation.condition = condition;
        self
    }

    fn last(&mut self) -> &mut ClientCall {
        self.history.calls.last_mut().expect("there is a call")
    }

    fn insert(self, from: u64, to: u64, n: u64) -> Self {
        self.call(from, Some(to), insert(n), done(n, 0))
    }

    fn reads(self, from: u64, to: u64, n: u64) -> Self {
        self.call(from, Some(to), RecordAction::Lookup, value(n))
    }

    fn audit(mut self, at: u64, key: &str, n: Option<u64>) -> Self {
        let end = n.map_or(OperationEnd::Failed(Failure::NotFound), value);
        self = self.call(at, Some(at), RecordAction::Lookup, end).of(key);
        self.last().client = None;
        self
    }

    fn outage(mut self, down: u64, up: u64) -> Self {
        let (down, up) = (Time(down * MS), Time(up * MS));
        self.history.outages.push(Outage { down, up, clean: false, sound_until: Time::NEVER });
        self
    }

    /// A cluster's partition goes on with a log that has everything up to `survives`.
    fn loss(mut self, up: u64, survives: u64) -> Self {
        let (up, survives_until) = (Time(up * MS), Time(survives * MS));
        let (keyspace, partition) = (KeyspaceId(1), PartitionId(0));
        self.history.losses.push(Loss {
            keyspace,
            partition,
            partitions: 1,
            down: up,
            up,
            survives_until,
            keeps_timestamp_bound: true,
        });
        self.history.is_cluster = true;
        self
    }

    fn findings(self) -> Findings {
        let mut history = self.history;
        history.calls.sort_by_key(|call| call.invoked);
        check(&history)
    }

    #[track_caller]
    fn good(self) {
        let findings = self.findings();
        assert!(findings.violations.is_empty(), "{}", findings.violations[0]);
        assert_eq!(findings.undecided, 0);
    }

    #[track_caller]
    fn bad(self, checker: &str) {
        let findings = self.findings();
        let by: Vec<&str> = findings.violations.iter().map(|violation| violation.checker).collect();
        assert!(by.contains(&checker), "{by:?}");
    }
}

fn insert(n: u64) -> RecordAction {
    RecordAction::Insert { value: token(n), expiry: Expiry::Never }
}

fn done(version: u64, number: u64) -> OperationEnd {
    OperationEnd::Done(Reply::Done { version: Timestamp(version), number })
}

fn value(n: u64) -> OperationEnd {
    let bytes = Bytes::from(token(n));
    OperationEnd::Done(Reply::Value { version: Timestamp(n), length: bytes.len() as u64, bytes })
}

fn list(version: u64, tokens: &[u64]) -> OperationEnd {
    let values: Vec<Bytes> = tokens.iter().map(|n| Bytes::from(token(*n))).collect();
    OperationEnd::Done(Reply::List {
        version: Timestamp(version),
        length: values.len() as u64,
        first: 0,
        values,
    })
}

fn append(n: u64) -> RecordAction {
    RecordAction::Append { values: vec![token(n)] }
}

fn counter(version: u64, value: i64) -> OperationEnd {
    OperationEnd::Done(Reply::Counter { version: Timestamp(version), value })
}

fn not_found() -> OperationEnd {
    OperationEnd::Failed(Failure::NotFound)
}

#[test]
fn overlapping_calls_may_take_effect_in_any_consistent_order() {
    sync().insert(0, 10, 1).insert(5, 20, 2).reads(21, 22, 2).good();
    sync().insert(0, 10, 1).reads(2, 3, 1).reads(4, 5, 1).good();
    sync().insert(0, 10, 1).call(2, Some(3), RecordAction::Lookup, not_found()).reads(4, 5, 1).good();
}

#[test]
fn a_read_of_the_past_or_of_the_future_is_found() {
    sync().insert(0, 1, 1).insert(2, 3, 2).reads(4, 5, 1).bad("linear");
    sync().insert(0, 1, 1).call(2, Some(3), RecordAction::Lookup, not_found()).bad("linear");
    // One reader has seen it, the next has not.
    sync().insert(0, 10, 1).reads(2, 3, 1).call(4, Some(5), RecordAction::Lookup, not_found()).bad("linear");
}

#[test]
fn lost_update_is_found() {
    let add = |delta| RecordAction::Increment { delta };
    let one = || sync().call(0, Some(9), add(5), counter(1, 5));
    one().call(1, Some(8), add(7), counter(2, 12)).good();
    one().call(1, Some(8), add(7), counter(2, 7)).bad("linear");
}

#[test]
fn write_of_unknown_outcome_may_take_effect_later_or_never() {
    let unknown = || sync().insert(0, 1, 1).call(2, Some(5), insert(2), OperationEnd::Unknown);
    unknown().reads(6, 7, 1).reads(20, 21, 1).good();
    unknown().reads(6, 7, 1).reads(20, 21, 2).good();
    unknown().reads(6, 7, 2).reads(20, 21, 1).bad("linear");
    let two = unknown().call(2, Some(5), append(3), OperationEnd::Unknown);
    two.reads(6, 7, 2).good();
}

#[test]
fn unknown_write_takes_effect_before_next_crash_or_never() {
    let unknown = || sync().insert(0, 1, 1).call(2, Some(5), insert(2), OperationEnd::Unknown).outage(10, 12);
    unknown().audit(12, "key", Some(2)).reads(13, 14, 2).good();
    unknown().audit(12, "key", Some(1)).reads(13, 14, 1).good();
    unknown().audit(12, "key", Some(1)).reads(13, 14, 2).bad("linear");
}

#[test]
fn sync_durability_loses_no_acknowledged_write() {
    sync().insert(0, 1, 1).outage(10, 12).audit(12, "key", Some(1)).good();
    sync().insert(0, 1, 1).outage(10, 12).audit(12, "key", None).bad("linear");
    sync().insert(0, 1, 1).insert(2, 3, 2).outage(10, 12).audit(12, "key", Some(1)).bad("linear");
}

#[test]
fn interval_durability_may_lose_only_writes_within_interval() {
    let interval =
        || builder_with_durability(Durability::Interval { ms: 100 }).insert(0, 1, 1).insert(2_000, 2_001, 2);
    interval().outage(2_050, 2_060).audit(2_060, "key", Some(2)).reads(2_070, 2_071, 2).good();
    interval().outage(2_050, 2_060).audit(2_060, "key", Some(1)).reads(2_070, 2_071, 1).good();
    interval().outage(2_050, 2_060).audit(2_060, "key", None).bad("linear");
    interval().outage(5_000, 5_010).audit(5_010, "key", Some(1)).bad("linear");
    // The state that was found is where the record goes on from.
    interval().outage(2_050, 2_060).audit(2_060, "key", Some(1)).reads(2_070, 2_071, 2).bad("linear");
}

#[test]
fn loss_affects_only_the_log_tail() {
    let both = || {
        let interval = builder_with_durability(Durability::Interval { ms: 100 });
        interval.insert(0, 1, 1).of("a").insert(2, 3, 2).of("b").outage(50, 60)
    };
    both().audit(60, "a", Some(1)).audit(60, "b", Some(2)).good();
    both().audit(60, "a", Some(1)).audit(60, "b", None).good();
    both().audit(60, "a", None).audit(60, "b", None).good();
    both().audit(60, "a", None).audit(60, "b", Some(2)).bad("linear");
}

#[test]
fn write_retried_across_loss_is_applied_once() {
    let across = |seen: &[u64]| {
        let interval = builder_with_durability(Durability::Interval { ms: 100 }).call(
            40,
            Some(90),
            append(1),
            done(7, 1),
        );
        let found = interval.outage(50, 60).audit(60, "key", None);
        found.call(100, Some(101), RecordAction::Lookup, list(7, seen))
    };
    across(&[1]).good();
    across(&[1, 1]).bad("once");
}

#[test]
fn token_may_appear_once_and_never_after_refused_write() {
    let one = |end| sync().call(0, Some(1), append(1), end);
    one(done(1, 1)).call(2, Some(3), RecordAction::Lookup, list(1, &[1])).good();
    one(done(1, 1)).call(2, Some(3), RecordAction::Lookup, list(1, &[1, 1])).bad("once");
    let denied = OperationEnd::NotDone(SessionError::NoKeyspace { name: "x".into(), epoch: MapEpoch(1) });
    one(denied).call(2, Some(3), RecordAction::Lookup, list(1, &[1])).bad("once");
    one(OperationEnd::Unknown).call(2, Some(3), RecordAction::Lookup, list(1, &[1])).good();
}

#[test]
fn unwritten_value_is_found() {
    sync().insert(0, 1, 1).reads(2, 3, 9).bad("written");
    sync().insert(0, 1, 1).of("other").reads(2, 3, 1).bad("written");
    sync().reads(2, 3, 1).insert(4, 5, 1).bad("written");
    let bytes = Bytes::from_static(b"garbage");
    let garbage = OperationEnd::Done(Reply::Value { version: Timestamp(1), length: 7, bytes });
    sync().call(2, Some(3), RecordAction::Lookup, garbage).bad("written");
}

#[test]
fn versions_rise_from_write_to_write_of_a_partition() {
    sync().insert(0, 1, 5).of("a").insert(2, 3, 7).of("b").good();
    sync().insert(0, 1, 5).of("a").insert(2, 3, 4).of("b").bad("order");
    sync().insert(0, 9, 5).of("a").insert(2, 3, 4).of("b").good();
    let crash =
        builder_with_durability(Durability::Memory).insert(0, 1, 5).outage(10, 20).audit(20, "key", None);
    crash.insert(30, 31, 4).good();
}

#[test]
fn versions_rise_across_losses_if_timestamp_bound_survives() {
    let lost = || builder_with_durability(Durability::Memory).insert(0, 1, 5).of("a").loss(100, 0);
    lost().insert(110, 111, 7).of("b").good();
    lost().insert(110, 111, 5).of("b").bad("order");
    lost().insert(110, 111, 4).of("b").bad("order");
    let mut again = lost().insert(110, 111, 4).of("b");
    again.history.losses[0].keeps_timestamp_bound = false;
    again.good();
    let mut under_way = builder_with_durability(Durability::Memory)
        .insert(0, 120, 5)
        .of("a")
        .loss(100, 0)
        .insert(121, 122, 4);
    under_way.history.losses[0].keeps_timestamp_bound = false;
    under_way.good();
}

#[test]
fn call_must_end_by_its_deadline_and_succeed_after_faults() {
    sync().call(0, None, insert(1), OperationEnd::Open).bad("progress");
    let mut late = sync().insert(0, 900, 1);
    late.last().deadline = Time(100 * MS);
    late.bad("progress");
    let mut healed = sync().call(50_000, Some(50_001), insert(1), OperationEnd::Unknown);
    healed.history.healed = Some(Time(10_000 * MS));
    healed.bad("progress");
}

#[test]
fn conditions_versions_and_waits_match_the_record() {
    let one = || sync().insert(0, 1, 5);
    let failed = OperationEnd::Failed(Failure::ConditionFailed {
        version: Timestamp(5),
        found: Some(zerohop_wire::messages::RecordType::Bytes),
    });
    one().call(2, Some(3), insert(6), failed.clone()).under(Condition::IfAbsent).good();
    one().call(2, Some(3), insert(6), failed.clone()).under(Condition::IfVersion(Timestamp(4))).good();
    one().call(2, Some(3), insert(6), failed).under(Condition::IfVersion(Timestamp(5))).bad("linear");
    one().call(2, Some(3), insert(6), done(6, 0)).under(Condition::IfVersion(Timestamp(5))).good();
    one().call(2, Some(3), insert(6), done(6, 0)).under(Condition::IfAbsent).bad("linear");
    let wait = |until| RecordAction::Wait { until };
    let timed_out = || OperationEnd::Failed(Failure::TimedOut { version: Timestamp(5) });
    one().call(2, Some(9), wait(WaitGoal::Differs(token(5))), timed_out()).good();
    one().call(2, Some(9), wait(WaitGoal::Present), timed_out()).bad("linear");
    one().insert(4, 5, 6).call(2, Some(9), wait(WaitGoal::Equals(token(6))), value(6)).good();
}

#[test]
fn record_expires_exactly_at_its_time() {
    let expiring = |at, end| {
        let act = RecordAction::Insert { value: token(1), expiry: Expiry::AfterMs(100) };
        sync().call(0, Some(10), act, done(1, 0)).call(at, Some(at + 1), RecordAction::Lookup, end)
    };
    expiring(50, value(1)).good();
    expiring(50, not_found()).bad("linear");
    expiring(105, value(1)).good();
    expiring(105, not_found()).good();
    expiring(150, not_found()).good();
    expiring(150, value(1)).bad("linear");
}

#[test]
fn expired_record_may_reappear_after_clock_is_set_back() {
    let restarted = |clock_ms: u64, were_set: bool, version: u64| {
        let act = RecordAction::Insert { value: token(1), expiry: Expiry::AfterMs(100) };
        let info = Reply::Info {
            version: Timestamp(version),
            record: RecordType::Bytes,
            length: token(1).len() as u64,
            expires_at_ms: Some(105),
        };
        let bytes = Bytes::from(token(1));
        let found = Reply::Value { version: Timestamp(version), length: bytes.len() as u64, bytes };
        let mut history =
            builder_with_durability(Durability::Interval { ms: 1_000 }).call(0, Some(10), act, done(1, 0));
        history.history.clocks_were_set = were_set;
        history = history.outage(2_000, 2_010).call(2_010, Some(2_010), RecordAction::Lookup, not_found());
        (history.last().client, history.last().clock_ms) = (None, (clock_ms, clock_ms));
        history = history.call(2_020, Some(2_021), RecordAction::Lookup, not_found());
        history.last().clock_ms = (clock_ms, clock_ms);
        history = history.outage(2_500, 2_510).call(
            2_510,
            Some(2_510),
            RecordAction::Lookup,
            OperationEnd::Done(found),
        );
        history.last().client = None;
        history = history.call(2_510, Some(2_510), RecordAction::Inspect, OperationEnd::Done(info));
        history.last().client = None;
        history
    };
    restarted(5_000, true, 1).good();
    restarted(5_000, false, 1).bad("linear");
    restarted(50, true, 1).bad("linear");
    restarted(5_000, true, 7).bad("linear");
}

#[test]
fn lists_are_trimmed_and_read_in_parts() {
    let three = || {
        let one = sync().call(0, Some(1), append(1), done(1, 1)).call(2, Some(3), append(2), done(2, 2));
        one.call(4, Some(5), append(3), done(3, 3))
    };
    let range = Range { start: 1, stop: i64::MAX };
    let values = vec![Bytes::from(token(2)), Bytes::from(token(3))];
    let part = |first| {
        OperationEnd::Done(Reply::List { version: Timestamp(3), length: 3, first, values: values.clone() })
    };
    three().call(6, Some(7), RecordAction::LookupRange { range }, part(1)).good();
    three().call(6, Some(7), RecordAction::LookupRange { range }, part(0)).bad("linear");
    let trimmed = three().call(6, Some(7), RecordAction::Trim { keep: range }, done(4, 2));
    trimmed.call(8, Some(9), RecordAction::Lookup, list(4, &[2, 3])).good();
}

#[test]
fn a_long_good_history_is_decided_quickly() {
    let mut long = sync();
    for n in 1..600 {
        let (from, to) = (n * 10, n * 10 + 25);
        long = match n % 7 {
            3 => long
                .call(from, Some(to), RecordAction::Increment { delta: 1 }, OperationEnd::Unknown)
                .of("counter"),
            5 => long.call(from, Some(to), insert(n), OperationEnd::Unknown),
            _ => long.insert(from, to, n),
        };
    }
    long.good();
}

const INTERVAL: Durability = Durability::Interval { ms: 100 };

#[test]
fn cluster_loses_only_an_uncertain_log_tail() {
    // A recent write may be lost or present; then it stays so.
    builder_with_durability(INTERVAL)
        .insert(0, 1, 1)
        .insert(900, 901, 2)
        .loss(1000, 500)
        .reads(1100, 1101, 1)
        .good();
    builder_with_durability(INTERVAL)
        .insert(0, 1, 1)
        .insert(900, 901, 2)
        .loss(1000, 500)
        .reads(1100, 1101, 2)
        .good();
    builder_with_durability(INTERVAL)
        .insert(0, 1, 1)
        .insert(900, 901, 2)
        .loss(1000, 500)
        .reads(1100, 1101, 1)
        .reads(1200, 1201, 2)
        .bad("linear");
    // An old write is not lost.
    builder_with_durability(INTERVAL)
        .insert(0, 1, 1)
        .insert(400, 401, 2)
        .loss(1000, 500)
        .reads(1100, 1101, 1)
        .bad("linear");
    builder_with_durability(INTERVAL)
        .insert(0, 1, 1)
        .loss(1000, 500)
        .call(1100, Some(1101), RecordAction::Lookup, not_found())
        .bad("linear");
    // Nothing is lost without a log in doubt.
    let mut lossless =
        builder_with_durability(INTERVAL).insert(0, 1, 1).insert(900, 901, 2).reads(1100, 1101, 1);
    lossless.history.is_cluster = true;
    lossless.bad("linear");
}

#[test]
fn loss_keeps_all_writes_before_surviving_write() {
    let young = || {
        builder_with_durability(Durability::Memory)
            .insert(0, 1, 1)
            .insert(10, 11, 2)
            .insert(20, 21, 3)
            .of("other")
    };
    young().loss(100, 0).reads(200, 201, 3).of("other").reads(210, 211, 2).good();
    young()
        .loss(100, 0)
        .call(200, Some(201), RecordAction::Lookup, not_found())
        .of("other")
        .reads(210, 211, 1)
        .good();
    young().loss(100, 0).reads(200, 201, 3).of("other").reads(210, 211, 1).bad("linear");
}

#[test]
fn calls_may_span_successive_losses() {
    let twice = || {
        builder_with_durability(Durability::Memory)
            .insert(0, 1, 1)
            .loss(100, 0)
            .insert(110, 111, 20)
            .loss(200, 0)
    };
    twice().call(300, Some(301), RecordAction::Lookup, not_found()).good();
    twice().reads(300, 301, 20).good();
    twice().reads(300, 301, 1).good();
    twice().reads(300, 301, 7).bad("written");
    // A retry may have taken effect before the loss, and again after it.
    builder_with_durability(INTERVAL)
        .call(90, Some(130), append(1), list_done(5))
        .loss(100, 0)
        .call(140, Some(141), RecordAction::Lookup, list(5, &[1]))
        .good();
}

fn list_done(version: u64) -> OperationEnd {
    done(version, 1)
}

#[test]
fn later_loss_may_keep_less_than_earlier_loss() {
    // What was observed between the losses was in the log of a member that has restarted with an
    // empty disk since.
    let twice = |survives| {
        let between =
            builder_with_durability(Durability::Memory).insert(0, 1, 1).loss(100, 0).reads(110, 111, 1);
        between.loss(200, survives).call(210, Some(211), RecordAction::Lookup, not_found())
    };
    twice(0).good();
    twice(150).bad("linear");
    let half = builder_with_durability(Durability::Memory)
        .insert(0, 1, 1)
        .loss(100, 0)
        .insert(110, 111, 2)
        .loss(200, 0);
    half.reads(210, 211, 1).good();
}
