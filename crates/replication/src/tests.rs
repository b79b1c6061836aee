//! Tests of single rules: members on simulated disks, driven manually.

mod admission;
mod audit;
#[cfg(debug_assertions)]
mod broken;
mod commit;
mod compare;
mod damaged;
mod disk_full;
mod gather;
mod late_members;
mod read_locks;
mod repair;
mod reported_logs;
mod retained;
mod rewind;
mod snapshot_install;
mod splits;
mod steady;

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Durability, Engine, EngineOptions, PartitionId};
use zerohop_wire::ids::{Incarnation, InstanceId, LogIndex, MapEpoch, PartitionEpoch, RequestId, Timestamp};
use zerohop_wire::messages::{
    self as wire, Condition, EntryName, Expiry, FollowerReport, Insert, LogEntry, Member, Outcome, PeerBody,
    PeerMessage, Query, RecordRead, RecordWrite, Stamp,
};
use zerohop_wire::{DecodeResult, Decoder, Elements, Encoder, Envelope, Features, Message};

use super::limits::{IDLE_US, KEEPING_UP_US, LAG_US, LEASE_WAIT_US};
use super::{
    Context, GroupChange, GroupView, Leases, Replica, ReplicaEffect, ReplicaEffects, ReplicaEvent, Role,
};
use zerohop_partition::MemberOptions;
use zerohop_partition::{ClockSample, RecordRequest, Token};
use zerohop_partition::{MapView, PartitionEffect};

/// All members have synced it before their promotion.
const TIMESTAMP_BOUND: Timestamp = Timestamp::from_millis(1 << 40);

/// The outputs of a member.
#[derive(Default)]
struct MemberOutput {
    sent: Vec<(Member, PartitionEpoch, Vec<u8>)>,
    answered: Vec<(u64, bool)>,
    read_lock_us: u32,
    proposals: Vec<GroupChange>,
    wrong_owner: usize,
    maps: usize,
    differing: Vec<Member>,
    broken: Vec<&'static str>,
    compared: Vec<ComparisonAnswer>,
}

/// The answer to a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ComparisonAnswer {
    next: Vec<u8>,
    records: u64,
    bytes: u64,
    copies: u32,
    differing: Vec<InstanceId>,
}

struct TestNode {
    disk: SimulatedDisk,
    engine: Engine<SimulatedDisk>,
    replica: Replica,
    leases: Leases,
    out: MemberOutput,
    now_us: u64,
    now_ms: u64,
}

impl zerohop_partition::PartitionEffects for MemberOutput {
    fn push(&mut self, effect: PartitionEffect<'_>) {
        match effect {
            PartitionEffect::Answer { to, message, read_lock_us } => self.answer(to, message, read_lock_us),
            PartitionEffect::WrongOwner { .. } => self.wrong_owner += 1,
            PartitionEffect::Reply { .. }
            | PartitionEffect::Dropped { .. }
            | PartitionEffect::Transaction(_)
            | PartitionEffect::UnsyncedPrepared(_)
            | PartitionEffect::TransactionLost { .. }
            | PartitionEffect::FlushWanted(_) => {}
        }
    }
}

impl MemberOutput {
    fn answer(&mut self, to: Token, message: &Message<'_>, read_lock_us: u32) {
        if read_lock_us > 0 {
            self.read_lock_us = read_lock_us;
        }
        self.answered.push((to.request.0, matches!(message, Message::Answer(Ok(_)))));
        if let Message::Answer(Ok(Outcome::Compared(found))) = message {
            let wire::RangeComparison { next, records, bytes, copies, differing } = *found;
            self.compared.push(ComparisonAnswer {
                next: next.to_vec(),
                records,
                bytes,
                copies,
                differing: differing.iter().collect(),
            });
        }
    }
}

impl ReplicaEffects for MemberOutput {
    fn push_replica(&mut self, effect: ReplicaEffect<'_>) {
        match effect {
            ReplicaEffect::Send { to, epoch, body } => {
                let (from, mut frame) = (to, Vec::new());
                let message = Message::Peer(PeerMessage { from, to, body: body.clone() });
                Encoder::default().encode(&Envelope::default(), &message, &mut frame).expect("fits");
                self.sent.push((to, epoch, frame));
            }
            ReplicaEffect::ProposeChange { change, .. } => self.proposals.push(change),
            ReplicaEffect::Differs { who, .. } => self.differing.push(who),
            ReplicaEffect::FetchMap { .. } => self.maps += 1,
            ReplicaEffect::InvariantBroken(broken) => self.broken.push(broken.rule),
        }
    }
}

fn member(instance: u32) -> Member {
    Member { instance: InstanceId(instance), incarnation: Incarnation(1) }
}

fn name(epoch: u32, index: u64) -> EntryName {
    EntryName { epoch, index: LogIndex(index) }
}

fn view(epoch: u64, primary: u32, in_sync: &[u32], followers: &[u32]) -> GroupView {
    let members = |list: &[u32]| list.iter().map(|one| member(*one)).collect();
    GroupView {
        epoch: PartitionEpoch(epoch),
        map_epoch: MapEpoch(epoch),
        primary: member(primary),
        in_sync: members(in_sync),
        followers: members(followers),
        min_in_sync: 1,
    }
}

fn entry(epoch: u32, index: u64) -> LogEntry<'static> {
    let timestamp = Timestamp::new(1_000, index as u16);
    LogEntry { name: name(epoch, index), timestamp, kind: 1, flags: 0, key: b"key", payload: b"value" }
}

impl TestNode {
    fn new(instance: u32) -> TestNode {
        TestNode::with(instance, SimulatedDisk::new(u64::from(instance)), 64 << 20)
    }

    fn with(instance: u32, disk: SimulatedDisk, memory_bytes: u64) -> TestNode {
        let options = EngineOptions {
            disk_reserve_bytes: 0,
            starts_checkpoints: false,
            segment_bytes: 64 << 10,
            checkpoint_tail_bytes: 64 << 10,
            collect_every_ms: 100,
            memory_bytes,
            ..EngineOptions::default()
        };
        TestNode::with_options(instance, disk, options)
    }

    fn with_options(instance: u32, disk: SimulatedDisk, options: EngineOptions) -> TestNode {
        let (mut engine, _) = Engine::open(disk.clone(), options).expect("opens");
        let durability = Durability::Interval { ms: 50 };
        let options =
            MemberOptions { durability, index_seed: 7, is_ordered: false, epoch: PartitionEpoch(1) };
        let replica = Replica::open(&mut engine, member(instance), PartitionId(1), options).expect("opens");
        let leases = Leases::new(member(instance), 1, Timestamp::ZERO);
        TestNode {
            disk,
            engine,
            replica,
            leases,
            out: MemberOutput::default(),
            now_us: 10_000_000,
            now_ms: 5_000,
        }
    }

    fn handle_event(&mut self, event: ReplicaEvent<'_>) {
        if let ReplicaEvent::Group(view) = &event {
            self.leases.set_map(view.map_epoch);
        }
        let mut context = Context {
            engine: &mut self.engine,
            now: ClockSample { ms: self.now_ms, elapsed_ms: self.now_us / 1_000 },
            now_us: self.now_us,
            leases: &self.leases,
            map: MapView::NONE,
        };
        self.replica.step(&mut context, event, &mut self.out).expect("goes on");
    }

    /// When it needs a tick though no event arrives.
    fn tick_due_us(&mut self) -> u64 {
        let mut context = Context {
            engine: &mut self.engine,
            now: ClockSample { ms: self.now_ms, elapsed_ms: self.now_us / 1_000 },
            now_us: self.now_us,
            leases: &self.leases,
            map: MapView::NONE,
        };
        self.replica.next_tick_us(&mut context)
    }

    fn receive(&mut self, from: u32, epoch: u64, body: &PeerBody<'_>) {
        self.handle_event(ReplicaEvent::Peer { from: member(from), epoch: PartitionEpoch(epoch), body });
    }

    fn entries(
        &mut self,
        from: u32,
        epoch: u64,
        (preceding, commit): (EntryName, u64),
        entries: &[LogEntry<'_>],
    ) {
        let (commit, entries) = (LogIndex(commit), Elements::from_slice(entries));
        self.receive(from, epoch, &PeerBody::Replicate { preceding, commit, entries });
    }

    /// Another instance grants its lease request at once.
    fn granted_by(&mut self, other: u32) {
        let (map_epoch, timestamp_bound) = (self.leases.map_epoch(), TIMESTAMP_BOUND);
        let body = PeerBody::LeaseGrant { sent_us: self.now_us, map_epoch, timestamp_bound };
        self.leases.handle_message(self.now_us, member(other), &body);
    }

    fn send_request(&mut self, request: u64, message: &Message<'_>) {
        self.leases.synced(TIMESTAMP_BOUND);
        let token = Token { connection: 1, request: RequestId(request) };
        self.handle_event(ReplicaEvent::Request(RecordRequest {
            token,
            envelope: Envelope::default(),
            message,
        }));
    }

    fn read(&mut self, request: u64) {
        let read = RecordRead { key: b"key", query: Query::Lookup };
        self.send_request(request, &Message::Read { seen: Timestamp::ZERO, read });
    }

    fn write(&mut self, request: u64, key: &[u8], value: &[u8]) {
        let change = zerohop_wire::messages::WriteChange::Insert(Insert { value, expiry: Expiry::Never });
        let write = RecordWrite { key, condition: Condition::Always, change };
        self.send_request(request, &Message::Write { stamp: Stamp::default(), write });
    }

    /// The messages that it has sent since the last check.
    fn sent_messages(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        self.each_sent(|body| {
            sent.push(match body {
                PeerBody::ReplicateAck(report) => format!("{report:?}"),
                PeerBody::Replicate { preceding, commit, entries } => {
                    format!("after {} {commit}: {}", preceding.index, entries.len())
                }
                other => format!("{other:?}"),
            });
        });
        sent
    }

    fn each_sent(&mut self, mut each: impl FnMut(&PeerBody<'_>)) {
        let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        for (_, _, bytes) in std::mem::take(&mut self.out.sent) {
            let DecodeResult::Frame { frame, .. } = decoder.decode(&bytes) else { panic!("no frame") };
            match frame.message(&mut Vec::new()) {
                Ok(Message::Peer(PeerMessage { body, .. })) => each(&body),
                other => panic!("{other:?}"),
            };
        }
    }
}

fn acknowledge_call(index: u64) -> PeerBody<'static> {
    PeerBody::ReplicateAck(FollowerReport::Acknowledged {
        matched: LogIndex(index),
        durable: LogIndex(index),
        applied: LogIndex(0),
    })
}

#[test]
fn gap_is_refused_and_conflict_truncates_unless_empty() {
    let mut b = TestNode::new(2);
    b.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[])));
    b.entries(1, 1, (name(0, 0), 0), &[entry(1, 1), entry(1, 2), entry(1, 3)]);
    b.sent_messages();
    b.entries(1, 1, (name(1, 4), 0), &[entry(1, 5)]);
    assert_eq!(b.sent_messages(), [format!("{:?}", FollowerReport::Differs { at: name(1, 3) })]);
    // A new primary whose log ends at 1: its empty append truncates nothing, its own entry 2 does.
    b.handle_event(ReplicaEvent::Group(view(2, 3, &[2], &[])));
    b.entries(3, 2, (name(1, 1), 0), &[]);
    assert_eq!(b.replica.log_end().last, name(1, 3));
    b.entries(3, 2, (name(1, 1), 0), &[entry(2, 2)]);
    assert_eq!((b.replica.log_end().last, b.replica.counts().truncations), (name(2, 2), 1));
}

#[test]
fn commit_index_applies_only_to_entries_matched_in_this_epoch() {
    let mut b = TestNode::new(2);
    b.handle_event(ReplicaEvent::Group(view(1, 1, &[2], &[])));
    b.entries(1, 1, (name(0, 0), 1), &[entry(1, 1), entry(1, 2), entry(1, 3)]);
    assert_eq!(b.replica.stats().commit, 1);
    b.handle_event(ReplicaEvent::Group(view(2, 3, &[2], &[])));
    b.entries(3, 2, (name(1, 1), 3), &[]);
    assert_eq!(b.replica.stats().commit, 1, "its own 2 and 3 are not the primary's");
    b.entries(3, 2, (name(1, 1), 3), &[entry(2, 2), entry(2, 3)]);
    assert_eq!(b.replica.stats().commit, 3);
}

#[test]
fn older_epochs_are_refused_and_newer_ones_wait_for_the_map() {
    let mut b = TestNode::new(2);
    b.handle_event(ReplicaEvent::Group(view(2, 1, &[2], &[])));
    b.entries(1, 1, (name(0, 0), 0), &[entry(1, 1)]);
    assert_eq!(b.sent_messages(), [format!("{:?}", PeerBody::Stale)]);
    assert_eq!(b.replica.log_end().last, name(0, 0));
    b.entries(3, 3, (name(0, 0), 0), &[entry(3, 1)]);
    assert_eq!((b.replica.log_end().last, b.out.maps), (name(0, 0), 1));
    b.handle_event(ReplicaEvent::Group(view(3, 3, &[2], &[])));
    assert_eq!(b.replica.log_end().last, name(3, 1), "pending entries are appended");
}

#[test]
fn new_primary_waits_for_epoch_marker_and_lease() {
    let mut b = TestNode::new(2);
    b.handle_event(ReplicaEvent::Group(view(1, 1, &[2, 3], &[])));
    b.entries(1, 1, (name(0, 0), 0), &[entry(1, 1)]);
    b.handle_event(ReplicaEvent::Group(view(2, 2, &[3], &[])));
    b.read(1);
    b.granted_by(3);
    b.handle_event(ReplicaEvent::Tick);
    assert!(b.out.answered.is_empty(), "neither the mark nor what stands before it is committed");
    b.receive(3, 2, &acknowledge_call(2));
    assert_eq!(b.out.answered, [(1, true)], "the entry of the old primary counts now");
    // Without the lease the primary answers nothing, until queued requests have timed out.
    b.now_us += 450_000;
    b.read(2);
    b.handle_event(ReplicaEvent::Tick);
    assert_eq!(b.out.answered.len(), 1);
    b.granted_by(3);
    b.handle_event(ReplicaEvent::Tick);
    assert_eq!(b.out.answered.last(), Some(&(2, true)));
}

#[test]
fn lease_release_applies_only_to_its_epoch() {
    for (yielded, is_released) in [(2, false), (3, true)] {
        let mut b = TestNode::new(2);
        b.handle_event(ReplicaEvent::Group(view(2, 1, &[2], &[])));
        let query =
            PeerBody::LeaseQuery { sent_us: 5, map_epoch: MapEpoch(2), timestamp_bound: Timestamp::ZERO };
        b.leases.handle_message(b.now_us, member(1), &query);
        b.receive(1, yielded, &PeerBody::Yield);
        b.handle_event(ReplicaEvent::Group(view(3, 2, &[], &[])));
        b.read(1);
        assert_eq!(!b.out.answered.is_empty(), is_released, "yields to epoch {yielded}");
        b.now_us += LEASE_WAIT_US;
        b.handle_event(ReplicaEvent::Tick);
        assert_eq!(b.out.answered.len(), 1, "it has waited");
    }
}

/// B, in sync with A as the primary of epoch 1, which has started. B grants A under the map of this epoch.
fn replica_that_granted_its_primary_in(epoch: u64) -> TestNode {
    let mut b = TestNode::new(2);
    b.handle_event(ReplicaEvent::Group(view(1, 1, &[2, 3], &[])));
    b.entries(1, 1, (name(0, 0), 1), &[entry(1, 1)]);
    if epoch > 1 {
        b.handle_event(ReplicaEvent::Group(view(epoch, 2, &[1], &[])));
    }
    let query =
        PeerBody::LeaseQuery { sent_us: 5, map_epoch: MapEpoch(epoch), timestamp_bound: Timestamp::ZERO };
    b.leases.handle_message(b.now_us, member(1), &query);
    b
}

fn answers_only_after_waiting(mut b: TestNode) {
    b.read(1);
    b.handle_event(ReplicaEvent::Tick);
    assert!(b.out.answered.is_empty(), "A may use its grant");
    b.now_us += LEASE_WAIT_US;
    b.handle_event(ReplicaEvent::Tick);
    assert_eq!(b.out.answered.len(), 1, "it has waited");
}

#[test]
fn repromoted_primary_still_waits_for_old_leases() {
    let mut b = replica_that_granted_its_primary_in(1);
    b.handle_event(ReplicaEvent::Group(view(2, 2, &[3], &[1])));
    b.handle_event(ReplicaEvent::Group(view(3, 3, &[2], &[1])));
    b.handle_event(ReplicaEvent::Group(view(4, 2, &[], &[3, 1])));
    answers_only_after_waiting(b);
}

#[test]
fn primary_waits_for_possible_primaries_of_missed_epoch() {
    let mut b = replica_that_granted_its_primary_in(2);
    b.handle_event(ReplicaEvent::Group(view(4, 2, &[], &[1])));
    answers_only_after_waiting(b);
}

#[test]
fn proposed_member_counts_until_the_epoch_changes() {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(GroupView { min_in_sync: 2, ..view(1, 1, &[], &[2]) }));
    a.now_us += LEASE_WAIT_US;
    a.write(1, b"key", b"value");
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.out.answered.is_empty(), "two copies must hold it");
    a.granted_by(2);
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.out.proposals.is_empty(), "it does not have what is committed");
    let last = a.replica.log_end().last.index.0;
    a.receive(2, 1, &acknowledge_call(last));
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.proposals, [GroupChange::Admit(member(2))]);
    // The member may be in sync already, and primary soon, so reads need its lease too.
    a.now_us += 450_000;
    a.read(2);
    assert!(a.out.answered.is_empty());
    // The request is not decided. A change that leaves the group as it is settles it.
    a.now_us += LAG_US;
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.proposals.last(), Some(&GroupChange::RaiseEpoch));
    a.handle_event(ReplicaEvent::Group(GroupView { min_in_sync: 2, ..view(2, 1, &[2], &[]) }));
    a.granted_by(2);
    a.receive(2, 2, &acknowledge_call(last));
    a.write(3, b"key", b"value");
    a.handle_event(ReplicaEvent::Tick);
    assert!(a.out.answered.iter().all(|(request, _)| *request != 3));
    a.receive(2, 2, &acknowledge_call(last + 2));
    assert_eq!(a.out.answered.last(), Some(&(3, true)));
}

#[test]
fn lone_primary_needs_the_proposed_member_to_commit() {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[], &[2])));
    a.now_us += LEASE_WAIT_US;
    a.leases.synced(TIMESTAMP_BOUND);
    a.handle_event(ReplicaEvent::Tick);
    a.write(1, b"key", b"value");
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.answered, [(1, true)], "no other member must have it");
    // A move: the follower has caught up, and may be in sync and primary before the answer arrives.
    a.handle_event(ReplicaEvent::AdmissionRequested(member(2)));
    a.granted_by(2);
    let last = a.replica.log_end().last.index.0;
    a.receive(2, 1, &acknowledge_call(last));
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.proposals, [GroupChange::Admit(member(2))]);
    a.write(2, b"key", b"other");
    a.handle_event(ReplicaEvent::Flushed);
    a.handle_event(ReplicaEvent::Tick);
    assert_eq!(a.out.answered.len(), 1, "the other may be in sync by now, and does not have it");
    a.receive(2, 1, &acknowledge_call(last + 1));
    assert_eq!(a.out.answered.last(), Some(&(2, true)));
}

#[test]
fn far_behind_follower_installs_a_snapshot() {
    let mut a = TestNode::new(1);
    a.handle_event(ReplicaEvent::Group(view(1, 1, &[], &[])));
    a.now_us += LEASE_WAIT_US;
    let mut ms = 0;
    for round in 0..6_000u64 {
        a.write(round, format!("key{}", round % 7).as_bytes(), &[round as u8; 200]);
        if round % 50 == 0 {
            ms += 20;
            a.engine.maintain(ms).expect("goes on");
            a.handle_event(ReplicaEvent::Tick);
        }
    }
    for _ in 0..500 {
        ms += 20;
        a.engine.maintain(ms).expect("goes on");
    }
    let handle = a.replica.partition.handle();
    assert!(!a.engine.has_entry(handle, 9).expect("can be looked for"), "compaction has dropped it");
    let mut c = TestNode::new(3);
    for node in [&mut a, &mut c] {
        node.handle_event(ReplicaEvent::Group(view(2, 1, &[], &[3])));
    }
    assert_eq!(c.replica.role(), Role::Follower);
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    for _ in 0..2_000 {
        ms += 20;
        a.now_us += 20_000;
        c.now_us += 20_000;
        for from in [1, 3] {
            let (sender, taker) = if from == 1 { (&mut a, &mut c) } else { (&mut c, &mut a) };
            sender.handle_event(ReplicaEvent::Tick);
            for (_, epoch, bytes) in std::mem::take(&mut sender.out.sent) {
                let DecodeResult::Frame { frame, .. } = decoder.decode(&bytes) else { panic!("no frame") };
                if let Ok(Message::Peer(PeerMessage { body, .. })) = frame.message(&mut Vec::new()) {
                    taker.receive(from, epoch.0, &body);
                }
            }
            sender.engine.maintain(ms).expect("goes on");
        }
    }
    assert_eq!(c.replica.counts().snapshots_installed, 1);
    let (of_a, of_c) = (a.replica.digest(&mut a.engine), c.replica.digest(&mut c.engine));
    assert_eq!(of_a, of_c);
    assert_eq!(of_a.expect("can be read").records, 7);
}

#[cfg(debug_assertions)]
#[test]
fn each_mutant_is_found_by_its_test() {
    use super::lease::tests as lease;
    use zerohop_partition::planted::{Bug, plant};

    let tests: [(Bug, fn()); 17] = [
        (
            Bug::VolatileLogReported,
            reported_logs::follower_reports_what_is_durable_and_member_in_sync_reports_all,
        ),
        (Bug::ReadLockIgnored, read_locks::deposed_primary_yields_after_its_read_locks),
        (Bug::CorruptEntriesSkipped, repair::what_is_corrupt_is_not_left_out_of_what_is_sent),
        (
            Bug::LogCompactedDuringInstall,
            retained::what_is_removed_stays_removed_though_the_log_is_compacted_while_it_is_sent,
        ),
        (Bug::DigestIndexNotChecked, audit::equal_members_compare_equal_during_writes),
        (Bug::CorruptionNotRepaired, repair::a_read_waits_until_another_member_has_sent_what_is_corrupt),
        (Bug::CorruptFollowerCounted, repair::corrupt_follower_reports_nothing_until_repaired),
        (Bug::PrecedingEntryNotChecked, gap_is_refused_and_conflict_truncates_unless_empty),
        (Bug::TruncationSkipped, gap_is_refused_and_conflict_truncates_unless_empty),
        (Bug::CommitIndexNotMatched, commit_index_applies_only_to_entries_matched_in_this_epoch),
        (Bug::OlderEpochAccepted, older_epochs_are_refused_and_newer_ones_wait_for_the_map),
        (Bug::EpochMarkerNotAwaited, new_primary_waits_for_epoch_marker_and_lease),
        (Bug::YieldEpochNotChecked, lease_release_applies_only_to_its_epoch),
        (Bug::AdmittedBeforeCaughtUp, proposed_member_counts_until_the_epoch_changes),
        (Bug::LeaseCountedFromArrival, lease::lease_counts_from_its_request),
        (Bug::NewerMapLeaseUsed, lease::a_grant_under_a_newer_map_waits_until_that_is_applied),
        (
            Bug::StartNotCountedAsGrant,
            lease::what_was_granted_under_the_new_map_is_not_waited_for_but_the_start_is,
        ),
    ];
    for (bug, test) in tests {
        plant(Some(bug));
        let is_seen = std::panic::catch_unwind(test).is_err();
        plant(None);
        assert!(is_seen, "{bug:?}");
    }
}
