//! Data staged before its transaction. Staged pieces are internal records of the partition. They are applied or expire, whichever
//! member fails meanwhile, and leave nothing behind.

use zerohop_transaction::StageId;
use zerohop_transaction::codec::encode_release;
use zerohop_transaction::limits::STAGED_US_MAX;
use zerohop_wire::blob::staged_key;

use super::disk_full::RESERVE_BYTES;
use super::*;
use zerohop_wire::messages::{Insert, Remove};

/// Pieces of this many bytes.
const PIECE_BYTES: usize = 100 << 10;

fn of_three(epoch: u64, primary: u32) -> ReplicaGroup {
    let in_sync = (1..=3).filter(|one| *one != primary).map(InstanceId).collect();
    ReplicaGroup { in_sync, ..ReplicaGroup::of_one(PartitionEpoch(epoch), InstanceId(primary)) }
}

fn piece(byte: u8) -> &'static [u8] {
    vec![byte; PIECE_BYTES].leak()
}

impl InstanceNetwork {
    /// Stages an insertion.
    fn stage(&mut self, sequence: u64, key: &str, value: &[u8]) -> (usize, u64) {
        let change = WriteChange::Insert(Insert { value, expiry: Expiry::Never });
        let write = RecordWrite { key: key.as_bytes(), condition: Condition::Always, change };
        let mut packed = Vec::new();
        pack(&RecordOperation::Write(write), &mut packed).expect("fits");
        self.stage_bytes(sequence, key, &packed)
    }

    fn stage_bytes(&mut self, sequence: u64, key: &str, piece: &[u8]) -> (usize, u64) {
        let stamp = Stamp {
            session: SESSION,
            sequence: Sequence(sequence),
            lowest_unanswered: Sequence(1),
            seen: Timestamp::ZERO,
        };
        let holder = self.holder(key);
        let envelope = self.benches[holder].envelope(KEYSPACE, key);
        (holder, self.benches[holder].send_request(envelope, &Message::Stage(StageBytes { stamp, piece })))
    }

    /// The same, and waits for the answer.
    fn staged(&mut self, sequence: u64, key: &str, value: &[u8]) {
        let request = self.stage(sequence, key, value);
        self.run_batches(60);
        assert_eq!(self.answer(request), Some(Ok("done 0".to_owned())), "{key} is staged");
    }

    /// Parts that insert the data staged under these numbers.
    fn staged_parts(&self, pieces: &[(u64, &str)]) -> Vec<TransactionPart> {
        let changes: Vec<_> = pieces.iter().map(|(_, key)| insert(key, "")).collect();
        let mut parts = self.parts(PartDurability::Sync, &changes);
        for item in parts.iter_mut().flat_map(|part| match &mut part.items {
            Items::Inline(items) => items.iter_mut(),
            Items::Staged(_) => panic!("nothing is"),
        }) {
            let (sequence, _) =
                pieces.iter().find(|(_, key)| self.hash(key) == item.lock_key).expect("is one");
            item.body = ItemBody::Staged(StageId { session: SESSION, sequence: Sequence(*sequence) });
        }
        parts
    }

    /// Staged pieces and bytes, over all members.
    fn all_staged(&mut self) -> (u64, u64) {
        let of = |bench: &mut InstanceBench| {
            let stats = bench.instance.stats();
            (stats.staged, stats.staged_bytes)
        };
        self.benches.iter_mut().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Lets time pass while nothing is staged.
    fn advance_us(&mut self, us: u64) {
        for bench in &mut self.benches {
            bench.now.unix_ms += us / 1_000;
            bench.now.elapsed_ms += us / 1_000;
        }
        self.run_batches(500);
    }

    fn is_clean(&mut self, records: u64) {
        assert_eq!(self.all_staged(), (0, 0), "nothing is staged");
        assert_eq!(self.record_count(), records, "nor is any record left of it");
        for bench in &self.benches {
            assert!(bench.instance.transactions_are_idle(), "something is left");
        }
    }

    /// All records of the engines, visible or not.
    fn record_count(&mut self) -> u64 {
        let of = |bench: &mut InstanceBench| -> u64 {
            let engine = &mut bench.instance.engine;
            let handles: Vec<_> = engine.partitions().map(|(_, handle)| handle).collect();
            handles.into_iter().map(|handle| engine.records(handle).expect("is open")).sum()
        };
        self.benches.iter_mut().map(of).sum()
    }
}

#[test]
fn staged_data_survives_crash_and_is_applied_once() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    world.staged(1, &keys[0], piece(b'a'));
    world.staged(2, &keys[3], piece(b'b'));
    let staged = world.all_staged();
    assert!(staged.0 == 2 && staged.1 > 2 * PIECE_BYTES as u64);
    assert_eq!(world.value(&keys[0]), Some(Err(Failure::NotFound)), "it is not visible");
    for has_checkpoints in [false, true] {
        // These checkpoints have the names of pieces and not their bytes.
        if has_checkpoints {
            world.benches.iter_mut().for_each(|bench| bench.instance.checkpoint_all());
            world.run_batches(200);
        }
        world = world.crash();
        world.run_batches(1_000);
        assert_eq!(world.all_staged(), staged, "from checkpoints: {has_checkpoints}");
    }
    let parts = world.staged_parts(&[(1, &keys[0]), (2, &keys[3])]);
    let request = world.transact(3, &parts);
    world.run_batches(200);
    let answer = world.answer(request).expect("is answered").expect("is done");
    assert!(answer.starts_with("transacted 2"), "{answer}");
    for (key, byte) in [(&keys[0], b'a'), (&keys[3], b'b')] {
        let value = world.value(key).expect("is answered").expect("is there");
        assert!(value.len() == PIECE_BYTES && value.bytes().all(|one| one == byte));
    }
    world.run_batches(CLEANED_UP_MS);
    world.is_clean(2);
    // Staged data is removed with its transaction, so another transaction finds it gone.
    let parts = world.staged_parts(&[(1, &keys[0])]);
    let request = world.transact(4, &parts);
    world.run_batches(100);
    let gone = world.answer(request).expect("is answered");
    assert!(matches!(gone, Err(Failure::Aborted { reason: AbortReason::StagedGone, .. })), "{gone:?}");
}

#[test]
fn abandoned_staged_data_expires() {
    for durability in [Durability::Sync, Durability::Memory] {
        let mut world = InstanceNetwork::new(2, durability);
        let keys = world.keys();
        for sequence in 1..=30 {
            world.staged(sequence, &keys[sequence as usize % 4], piece(b'a'));
        }
        assert_eq!(world.all_staged().0, 30);
        world.advance_us(STAGED_US_MAX / 2);
        // Another piece prolongs those of its session in its partition.
        world.staged(31, &keys[0], piece(b'b'));
        world.advance_us(STAGED_US_MAX * 3 / 4);
        assert_eq!(world.all_staged().0, 8, "those beside which nothing came are gone");
        world.advance_us(STAGED_US_MAX);
        world.run_batches(1_000);
        world.is_clean(0);
    }
}

#[test]
fn released_staged_data_is_removed_unless_a_transaction_has_pinned_it() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    for sequence in 1..=3 {
        world.staged(sequence, &keys[0], piece(b'a'));
    }
    // Number 9 does not exist.
    for (sequence, pieces) in [(4, &[1, 9][..]), (5, &[1])] {
        let pieces: Vec<Sequence> = pieces.iter().copied().map(Sequence).collect();
        let request = world.stage_bytes(sequence, &keys[0], &encode_release(&pieces));
        world.run_batches(60);
        assert_eq!(world.answer(request), Some(Ok("done 0".to_owned())));
        assert_eq!(world.all_staged().0, 2, "the others stay");
    }
    let parts = world.staged_parts(&[(1, &keys[0])]);
    let request = world.transact(6, &parts);
    world.run_batches(100);
    let gone = world.answer(request).expect("is answered");
    assert!(matches!(gone, Err(Failure::Aborted { reason: AbortReason::StagedGone, .. })), "{gone:?}");
    world.stage_bytes(7, &keys[0], &encode_release(&[Sequence(2), Sequence(3)]));
    world.run_batches(CLEANED_UP_MS);
    world.is_clean(0);
}

/// Counts the records of a partition, as `DBSIZE` does.
struct RecordCount(u64);

impl Program for RecordCount {
    fn run<D: Disk>(
        &mut self,
        unit: &mut Unit<'_, D>,
        _reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        self.0 = unit.count()?;
        Ok(true)
    }
}

/// A partition's clients do not see its staged pieces, also if there are so many that their names do not fit a short entry.
#[test]
fn full_disk_releases_staged_data_and_counts_without_it() {
    let mut world = InstanceNetwork::reserving(RESERVE_BYTES, 2, Durability::Sync);
    let keys = world.keys();
    let pieces: Vec<Sequence> = (1..=300).map(Sequence).collect();
    for sequence in &pieces {
        world.stage(sequence.0, &keys[0], b"value");
    }
    world.run_batches(300);
    assert_eq!(world.all_staged().0, 300);
    let (holder, partition) = (world.holder(&keys[0]), world.partition(&keys[0]));
    let mut count = RecordCount(0);
    let bench = &mut world.benches[holder];
    let to = Token { connection: 3, request: RequestId(1) };
    let place = (KeyspaceId(KEYSPACE), partition);
    bench.instance.run(bench.now, to, place, (&mut count, &mut Vec::new()), &mut bench.sent).expect("runs");
    assert_eq!(count.0, 0, "nothing was written");

    world.leave_free_bytes(RESERVE_BYTES + (1 << 20));
    let release = world.stage_bytes(301, &keys[0], &encode_release(&pieces));
    world.run_batches(60);
    assert_eq!(world.answer(release), Some(Ok("done 0".to_owned())));
    assert_eq!(world.all_staged(), (0, 0));
}

/// At any moment of a transaction: a piece that it has pinned stays, otherwise it finds the piece gone.
#[test]
fn release_during_a_transaction_leaves_it_atomic() {
    let mut outcomes = [0, 0];
    for batches in 0..20 {
        let mut world = InstanceNetwork::new(2, Durability::Sync);
        let keys = world.keys();
        world.staged(1, &keys[0], piece(b'a'));
        world.staged(2, &keys[3], piece(b'b'));
        let parts = world.staged_parts(&[(1, &keys[0]), (2, &keys[3])]);
        let request = world.transact(3, &parts);
        world.run_batches(batches);
        let release = world.stage_bytes(4, &keys[0], &encode_release(&[Sequence(1)]));
        world.run_batches(300);
        assert_eq!(world.answer(release), Some(Ok("done 0".to_owned())));
        let is_committed = match world.answer(request).expect("is answered") {
            Ok(answer) => answer.starts_with("transacted 2"),
            Err(Failure::Aborted { reason: AbortReason::StagedGone, .. }) => false,
            other => panic!("{other:?}"),
        };
        outcomes[usize::from(is_committed)] += 1;
        for key in [&keys[0], &keys[3]] {
            let found = world.value(key).expect("is answered");
            assert_eq!(found.is_ok(), is_committed, "after {batches} batches: {found:?}");
        }
        world.stage_bytes(5, &keys[3], &encode_release(&[Sequence(2)]));
        world.run_batches(CLEANED_UP_MS);
        world.is_clean(if is_committed { 2 } else { 0 });
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

#[test]
fn staged_data_survives_failover_and_expires_there() {
    let mut world = InstanceNetwork::new(3, Durability::Sync);
    let keys = world.keys();
    for (partition, key) in keys.iter().enumerate() {
        let primary = world.holder(key) as u32 + 1;
        world.set_group(PartitionId(partition as u32), of_three(2, primary));
    }
    world.run_batches(1_500);
    for (sequence, key) in (1..).zip(&keys) {
        world.staged(sequence, key, piece(b'a'));
    }
    for (partition, key) in keys.iter().enumerate() {
        let next = (world.holder(key) as u32 + 1) % 3 + 1;
        world.set_group(PartitionId(partition as u32), of_three(3, next));
    }
    world.run_batches(2_000);
    assert_eq!(world.all_staged().0, 12, "all three have each of them");
    let parts = world.staged_parts(&[(1, &keys[0]), (2, &keys[1])]);
    let request = world.transact(9, &parts);
    world.run_batches(300);
    assert!(world.answer(request).expect("is answered").expect("is done").starts_with("transacted 2"));
    assert_eq!(world.value(&keys[0]).map(|value| value.map(|value| value.len())), Some(Ok(PIECE_BYTES)));
    world.advance_us(STAGED_US_MAX);
    world.run_batches(CLEANED_UP_MS);
    assert_eq!(world.all_staged(), (0, 0));
    assert_eq!(world.record_count(), 6, "two records, three times");
}

#[test]
fn data_staged_before_split_applies_in_child_with_its_key_only() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    world.staged(1, &keys[0], piece(b'a'));
    world.staged(2, &keys[3], piece(b'b'));
    world.staged(3, &keys[1], piece(b'c'));
    world.split();
    // Long enough for each child to have removed the other's records.
    world.run_batches(2_000);
    let parts = world.staged_parts(&[(1, &keys[0]), (2, &keys[3])]);
    let request = world.transact(4, &parts);
    world.run_batches(300);
    assert!(world.answer(request).expect("is answered").expect("is done").starts_with("transacted 2"));
    for key in [&keys[0], &keys[3]] {
        let length = world.value(key).map(|value| value.map(|value| value.len()));
        assert_eq!(length, Some(Ok(PIECE_BYTES)));
    }
    world.advance_us(STAGED_US_MAX + 1_000_000);
    world.run_batches(CLEANED_UP_MS + 10_000);
    world.is_clean(2);
}

#[test]
fn staged_piece_belongs_to_one_transaction() {
    let mut world = InstanceNetwork::new(2, Durability::Sync);
    let keys = world.keys();
    world.staged(1, &keys[0], piece(b'a'));
    let parts = world.staged_parts(&[(1, &keys[0])]);
    let other = world.parts(PartDurability::Sync, &[insert(&keys[3], "x")]);
    let both: Vec<TransactionPart> = parts.iter().chain(&other).cloned().collect();
    // Prepared, and without the decision: the participant retains its piece.
    let (first, coordinator) = (world.holder(&keys[0]), world.holder(&keys[3]));
    assert_ne!(first, coordinator);
    world.loses = Box::new(move |from, _| from == first);
    let outcome = world.transact(2, &both);
    world.run_batches(100);
    assert_eq!(world.answer(outcome), None);
    // No client may write there, not even with chunk operations.
    let key = staged_key(SESSION, Sequence(1));
    let stamp = zerohop_wire::blob::BlobStamp { id: u64::MAX, generation: 0 };
    let cut = zerohop_wire::messages::BlobChange::TruncateChunk { stamp, keep: 0, creates_absent: true };
    for change in [WriteChange::Remove(Remove), WriteChange::Blob(cut)] {
        let envelope = world.benches[first].envelope(KEYSPACE, &keys[0]);
        let write = RecordWrite { key: &key, condition: Condition::Always, change };
        let request =
            world.benches[first].send_request(envelope, &Message::Write { stamp: Stamp::default(), write });
        world.run_batches(50);
        let answer = world.answer((first, request));
        assert!(matches!(answer, Some(Err(Failure::BadRequest { .. }))), "{answer:?}");
    }
    assert_eq!(world.all_staged().0, 1);
    world.loses = Box::new(|_, _| false);
    world.run_batches(1_000);
    assert!(world.answer(outcome).expect("is answered").expect("is done").starts_with("transacted 2"));
    let again = world.transact(3, &parts);
    world.run_batches(100);
    let refused = world.answer(again).expect("is answered");
    assert!(matches!(refused, Err(Failure::Aborted { reason: AbortReason::StagedGone, .. })), "{refused:?}");
    world.run_batches(CLEANED_UP_MS);
    world.is_clean(2);
}

#[test]
fn large_staged_data_is_stored_in_log() {
    let mut world = InstanceNetwork::new(1, Durability::Interval { ms: 100 });
    let keys = world.keys();
    let long = vec![b'a'; 4 << 20];
    for sequence in 1..=12 {
        world.staged(sequence, &keys[0], &long);
    }
    let (pieces, bytes) = world.all_staged();
    assert!(pieces == 12 && bytes > 48 << 20);
    world.benches[0].instance.checkpoint_all();
    world.run_batches(500);
    let checkpoints = world.benches[0].instance.stats().checkpoint_bytes;
    assert!(checkpoints < 1 << 20, "the bytes are in no checkpoint: {checkpoints}");
    world.advance_us(STAGED_US_MAX);
    world.is_clean(0);
    // Removed records are dead space, which compaction frees.
    world.run_batches(5_000);
    let stats = world.benches[0].instance.stats();
    assert!(stats.log_bytes < 16 << 20, "{} bytes of log", stats.log_bytes);
}
