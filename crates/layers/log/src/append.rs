//! Appends a batch, once for each sequence number of its producer.

use zerohop_layer_procedure::{Decide, OptimisticTransaction, Writes};

use crate::batch::{Batch, ProducerStamp, SEQUENCE_END};
use crate::error::LogError;
use crate::keys;
use crate::planted::{Bug, is_planted};
use crate::procedure::{LogPause, LogProcedure, LogReads};
use crate::records::{PRODUCER_BATCHES, ProducerBatch, ProducerRecord, StoredBatch, TailRecord};

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendOutcome {
    /// The offset of the first record.
    pub base: u64,
    /// An earlier append of the same sequence number has written the batch.
    pub is_duplicate: bool,
}

/// Appends a batch to a log partition, in one transaction of its region.
///
/// If the answer is lost, the same append is repeated: with a producer, the batch is in the log once. Without one, it may be
/// there twice.
pub fn append(partition: u32, batch: Batch) -> impl LogProcedure<Output = AppendOutcome> + Send {
    OptimisticTransaction::new(append_decision(partition, batch))
}

/// The decision of an append, for a transaction that has other parts too.
pub fn append_decision(partition: u32, batch: Batch) -> impl Decide<LogError, Output = AppendOutcome> + Send {
    move |now: u64, reads: &mut LogReads, writes: &mut Writes| {
        append_in(now, reads, writes, partition, &batch)
    }
}

fn append_in(
    now: u64,
    reads: &mut LogReads,
    writes: &mut Writes,
    partition: u32,
    batch: &Batch,
) -> Result<AppendOutcome, LogPause> {
    let tail_key = keys::tail(partition);
    let stamp = batch.producer();
    reads.require(
        [tail_key.clone()].into_iter().chain(stamp.map(|stamp| keys::producer(partition, stamp.id))),
    )?;
    let tail: TailRecord = reads.get(&tail_key)?.ok_or(LogError::NoSuchPartition)?;
    let mut producer = None;
    if let Some(stamp) = stamp {
        let known = reads.get::<ProducerRecord>(&keys::producer(partition, stamp.id))?;
        match judge(known.as_ref(), stamp, batch.count())? {
            Sequence::Duplicate(base) => return Ok(AppendOutcome { base, is_duplicate: true }),
            Sequence::First => producer = Some((stamp, Vec::new())),
            Sequence::Following => {
                producer = Some((stamp, known.map(|known| known.batches).unwrap_or_default()));
            }
        }
    }
    let base = tail.next;
    let next =
        base.checked_add(u64::from(batch.count())).ok_or_else(|| LogError::Corrupt(tail_key.clone()))?;
    let tail = TailRecord {
        next,
        highest: tail.highest.max(batch.max_time()),
        bytes: tail.bytes + batch.bytes().len() as u64,
        batches: tail.batches + 1,
    };
    let stored = StoredBatch { base, highest: tail.highest, appended: now, batch: batch.clone() };
    let batch_key = keys::batch(partition, next - 1);
    reads.assume_absent(batch_key.clone());
    writes.put(batch_key, &stored);
    writes.put(tail_key, &tail);
    if let Some((stamp, mut batches)) = producer {
        if batches.len() == PRODUCER_BATCHES {
            batches.remove(0);
        }
        batches.push(ProducerBatch { sequence: stamp.sequence, count: batch.count(), base });
        let record = ProducerRecord { epoch: stamp.epoch, used: now, batches };
        writes.put(keys::producer(partition, stamp.id), &record);
    }
    Ok(AppendOutcome { base, is_duplicate: false })
}

/// What the sequence number of a batch says.
enum Sequence {
    /// The first batch of an epoch.
    First,
    /// The one behind the last.
    Following,
    /// One that was appended, at this offset.
    Duplicate(u64),
}

fn judge(known: Option<&ProducerRecord>, stamp: ProducerStamp, count: u32) -> Result<Sequence, LogError> {
    let Some(known) = known else {
        return if stamp.sequence == 0 { Ok(Sequence::First) } else { Err(LogError::UnknownProducer) };
    };
    if stamp.epoch < known.epoch && !is_planted(Bug::EpochNotFenced) {
        return Err(LogError::ProducerFenced { epoch: known.epoch });
    }
    if stamp.epoch > known.epoch {
        return match stamp.sequence {
            0 => Ok(Sequence::First),
            _ => Err(LogError::SequenceGap { expected: 0 }),
        };
    }
    let expected = known.batches.last().map_or(0, |last| last.end());
    if stamp.sequence == expected {
        return Ok(Sequence::Following);
    }
    let same = known.batches.iter().find(|one| (one.sequence, one.count) == (stamp.sequence, count));
    match same {
        Some(_) if is_planted(Bug::DuplicateAppended) => Ok(Sequence::Following),
        Some(same) => Ok(Sequence::Duplicate(same.base)),
        None if is_behind(stamp.sequence, expected) => Err(LogError::OldSequence),
        None if is_planted(Bug::SequenceGapAccepted) => Ok(Sequence::Following),
        None => Err(LogError::SequenceGap { expected }),
    }
}

/// Whether a sequence number is one before `expected`: in the half of all numbers that ends there.
const fn is_behind(sequence: u32, expected: u32) -> bool {
    expected.wrapping_sub(sequence) % SEQUENCE_END < SEQUENCE_END / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::ProducerId;

    #[test]
    fn sequence_numbers_follow_each_other_over_their_end() {
        let last = ProducerBatch { sequence: SEQUENCE_END - 2, count: 3, base: 9 };
        let known = ProducerRecord { epoch: 4, used: 0, batches: vec![last] };
        let judge_of = |epoch, sequence, count| {
            judge(Some(&known), ProducerStamp { id: ProducerId([1; 16]), epoch, sequence }, count)
        };
        assert!(matches!(judge_of(4, 1, 7), Ok(Sequence::Following)));
        assert!(matches!(judge_of(4, SEQUENCE_END - 2, 3), Ok(Sequence::Duplicate(9))));
        assert!(matches!(judge_of(4, SEQUENCE_END - 2, 2), Err(LogError::OldSequence)));
        assert!(matches!(judge_of(4, 0, 1), Err(LogError::OldSequence)));
        assert!(matches!(judge_of(4, 2, 1), Err(LogError::SequenceGap { expected: 1 })));
        assert!(matches!(judge_of(3, 1, 1), Err(LogError::ProducerFenced { epoch: 4 })));
        assert!(matches!(judge_of(5, 0, 1), Ok(Sequence::First)));
        assert!(matches!(judge_of(5, 1, 1), Err(LogError::SequenceGap { expected: 0 })));
    }
}
