//! Transactions in the model of the servers: they take effect at once, at the coordinator.

use zerohop_placement::partition_of;
use zerohop_transaction::codec::decode_items;
use zerohop_transaction::{Access, ItemBody, Items, StageId, TransactionPart};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{ItemAnswer, Outcome, RecordOperation};
use zerohop_wire::{AbortReason, Elements, Envelope, Failure};

use super::KEYSPACE;
use super::replies::answer_of;
use super::server::{FakeCluster, RememberedOutcome, apply};

impl FakeCluster {
    /// Applies all of it at once, or nothing: this model does not simulate the protocol between
    /// servers.
    pub fn transact(&mut self, parts: &[TransactionPart], version: Timestamp) -> RememberedOutcome {
        let aborted = |reason, part: usize, item: usize| {
            RememberedOutcome::Failed(Failure::Aborted { reason, part: part as u32, item: item as u32 })
        };
        let order = |part: &TransactionPart| (part.routing_key.keyspace, part.routing_key.point);
        assert!(parts.windows(2).all(|pair| order(&pair[0]) < order(&pair[1])), "parts have an order");
        if let Some(reason) = self.commits.abort.pop_front() {
            return aborted(reason, u32::MAX as usize, u32::MAX as usize);
        }
        let keyspace = self.map.keyspace(KEYSPACE).unwrap().clone();
        let config = keyspace.config();
        let before = self.partitions.clone();
        let mut after = before.clone();
        let mut answers = Vec::new();
        self.transacted_parts.push(parts.len());
        for (number, part) in parts.iter().enumerate() {
            let at = partition_of(part.routing_key.point, config.partitions);
            let staged = |id: &StageId| before[at.get() as usize].staged.get(id).cloned();
            let items = match &part.items {
                Items::Inline(items) => items.clone(),
                Items::Staged(id) => match staged(id) {
                    Some(bytes) => decode_items(&bytes).expect("a list was staged"),
                    None => return aborted(AbortReason::StagedGone, number, u32::MAX as usize),
                },
            };
            for (place, item) in items.iter().enumerate() {
                let bytes = match &item.body {
                    ItemBody::Inline(bytes) => bytes.to_vec(),
                    ItemBody::Staged(id) => match staged(id) {
                        Some(bytes) => bytes,
                        None => return aborted(AbortReason::StagedGone, number, place),
                    },
                };
                let operation =
                    Elements::<RecordOperation<'_>>::packed(1, &bytes).unwrap().iter().next().unwrap();
                assert_eq!(item.lock_key, config.hash.hash(config.seed, operation.key()));
                assert_eq!(item.access, Access::of(&operation));
                if keyspace.partition(operation.key()) != at {
                    return aborted(AbortReason::Misplaced, number, place);
                }
                let records = &before[at.get() as usize].records;
                let known = records.get(operation.key()).map_or(Timestamp::ZERO, |(version, _)| *version);
                if item.seen.is_some_and(|seen| seen != known) {
                    return aborted(AbortReason::ReadChanged, number, place);
                }
                let mut packed = Vec::new();
                match operation {
                    RecordOperation::Read(read) => {
                        std::mem::swap(&mut self.partitions, &mut after);
                        self.read(&Envelope::default(), at, read, |answer| {
                            zerohop_wire::pack(&ItemAnswer(answer), &mut packed).unwrap();
                        });
                        std::mem::swap(&mut self.partitions, &mut after);
                    }
                    RecordOperation::Write(write) => {
                        let kept = apply(&mut after[at.get() as usize].records, version, &write);
                        if let RememberedOutcome::Failed(Failure::ConditionFailed { .. }) = kept {
                            return aborted(AbortReason::ConditionFailed, number, place);
                        }
                        let answer = match answer_of(&kept) {
                            Ok(Outcome::Done { number, .. }) => {
                                Ok(Outcome::Done { version: Timestamp::MAX, number })
                            }
                            other => other,
                        };
                        zerohop_wire::pack(&ItemAnswer(answer), &mut packed).unwrap();
                    }
                }
                answers.extend(packed);
            }
        }
        self.partitions = after;
        RememberedOutcome::Transacted { version, answers }
    }
}
