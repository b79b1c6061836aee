//! The clients' batches of record writes, in runs in which primaries send the entries of a turn in part (`torn_batches`). Single
//! calls rarely meet in one frame, so that few answers wait for the entries of several writes.
//!
//! ```text
//!   a call ──> writes to several keys, at least two of one partition ──> one frame for each partition
//!               └─ each a call of its own in the history
//! ```

use zerohop_base::random::Random;
use zerohop_session::{Coalescing, Collect};
use zerohop_wire::ids::{KeyspaceId, PartitionId};
use zerohop_wire::limits::BODY_BYTES_MAX;
use zerohop_wire::messages::Expiry;

use super::SimulatedCluster;
use super::scans::PUTS_FROM;
use crate::streams::Draw;
use crate::workload::draw::OperationDraws;
use crate::workload::operation::{RecordAction, RecordCall};

const MS: u64 = 1_000;

/// One of so many calls starts a batch.
const OF_CALLS: u64 = 8;

/// The lowest and the highest number of writes in a batch.
const WRITES: (u64, u64) = (2, 6);

/// The keys of batches. Except for the first and the last, later writes leave the tokens of earlier ones in place.
const KEYS: [&str; 7] = ["mix-0", "mix-1", "list-0", "list-1", "count-0", "text-0", "soon-0"];

/// The draws are in a stream of their own.
const BATCHES: u64 = 0xEB << 56;

/// See the module.
pub(super) struct RecordBatches<'w> {
    pub(super) world: &'w mut SimulatedCluster,
}

impl RecordBatches<'_> {
    /// A client may send a batch, beside its other work.
    pub(super) fn begin(&mut self, client: usize) {
        let world = &mut *self.world;
        if !world.scenario.peers.sends_half {
            return;
        }
        let now = world.now();
        let mut random = Random::new(world.seed ^ BATCHES).fork(now.0 ^ (client as u64) << 48);
        let live: Vec<KeyspaceId> = world.watch.live(now).collect();
        if !random.chance(1, OF_CALLS) || live.is_empty() {
            return;
        }
        let any = *random.pick(&live);
        let focus = world.focus(now).filter(|one| live.contains(one) && random.chance(3, 4));
        let keyspace = focus.unwrap_or(any);
        let Some(known) = world.watch.map.keyspace(keyspace) else { return };
        let keys = draw_keys(&mut random, |key| known.partition(key.as_bytes()));
        let limit_us = random.between(1_500 * MS, 8_000 * MS);
        let together = Coalescing::Within(Collect { delay_us: 0, bytes: BODY_BYTES_MAX as u32 });
        world.trace.record(now, format_args!("c{client} sends a batch of {} writes", keys.len()));
        world.coverage.blob("record batches sent");
        for key in keys {
            let operation = write_of(key, &mut random, &mut world.draws);
            world.submit_as(PUTS_FROM, client, keyspace, operation, (limit_us, together));
        }
    }
}

/// Different keys in any order. The first two are of one partition if the keys allow it, and in half of the batches all of them are.
fn draw_keys(random: &mut Random, partition: impl Fn(&str) -> PartitionId) -> Vec<&'static str> {
    let mut left = KEYS.to_vec();
    let mut keys: Vec<&str> = Vec::new();
    let count = WRITES.0 + random.below(WRITES.1 - WRITES.0 + 1);
    while !left.is_empty() {
        keys.push(left.swap_remove(random.below(left.len() as u64) as usize));
    }
    let is_shared = |one: &&&str| keys.iter().filter(|key| partition(key) == partition(one)).count() > 1;
    let chosen = partition(keys.iter().find(is_shared).unwrap_or(&keys[0]));
    let (mut together, others): (Vec<&str>, Vec<&str>) =
        keys.into_iter().partition(|key| partition(key) == chosen);
    if together.len() < 2 || random.chance(1, 2) {
        let rest = together.split_off(together.len().min(2));
        together.extend(others.into_iter().chain(rest));
    }
    together.truncate(count as usize);
    together
}

/// A write to this key that succeeds whatever other batches have written there.
fn write_of(key: &str, random: &mut Random, draws: &mut OperationDraws) -> RecordCall {
    let (class, _) = key.split_once('-').unwrap_or((key, ""));
    let act = match class {
        "list" => RecordAction::Append { values: vec![draws.token()] },
        "text" => RecordAction::Extend { bytes: draws.token() },
        "count" => RecordAction::Increment { delta: 1 + random.below(1 << 40) as i64 },
        _ => RecordAction::Insert { value: draws.token(), expiry: Expiry::Never },
    };
    RecordCall::new(key.as_bytes(), act)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn batches_have_different_keys_and_two_of_one_partition() {
        let partition =
            |key: &str| PartitionId(if key == "mix-0" { 2 } else { u32::from(key.ends_with('0')) });
        let (mut lengths, mut mixed) = (BTreeSet::new(), 0);
        for seed in 0..200 {
            let keys = draw_keys(&mut Random::new(seed), partition);
            assert!(keys.len() >= 2 && partition(keys[0]) == partition(keys[1]), "{keys:?}");
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
            mixed += u32::from(keys.iter().any(|key| partition(key) != partition(keys[0])));
            lengths.insert(keys.len());
        }
        assert_eq!(lengths, BTreeSet::from([2, 3, 4, 5, 6]));
        assert!(mixed > 20, "{mixed} batches with several partitions");
    }

    #[test]
    fn keys_of_different_partitions_make_a_batch_all_the_same() {
        let partition = |key: &str| PartitionId(KEYS.iter().position(|one| *one == key).unwrap() as u32);
        (0..50).for_each(|seed| assert!(draw_keys(&mut Random::new(seed), partition).len() >= 2));
    }
}
