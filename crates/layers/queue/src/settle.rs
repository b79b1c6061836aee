//! Settles leases: acknowledges messages, releases them, or extends their leases.

use std::collections::BTreeSet;

use zerohop_layer_procedure::{Decide, OptimisticTransaction, Writes};

use crate::dead::bury;
use crate::error::QueueError;
use crate::group_order::{GroupChanges, put_entry};
use crate::keys;
use crate::planted::{Bug, is_planted};
use crate::procedure::{QueuePause, QueueProcedure, QueueReads};
use crate::records::{ConsumerId, ConsumerRecord, CountsRecord, EntryRecord, Lease, MessageId};

/// What a consumer has of a message that it has leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Receipt {
    /// The message.
    pub message: MessageId,
    /// The end of the lease, in milliseconds since 1970.
    pub due: u64,
    /// How often the message was leased, this time included.
    pub tries: u32,
}

/// What happens to leased messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleAction {
    /// They are processed, and removed.
    Acknowledge,
    /// They are ready again after `delay` milliseconds.
    Release {
        /// The delay.
        delay: u64,
    },
    /// Their leases end `lease` milliseconds from now.
    Extend {
        /// The time.
        lease: u64,
    },
}

/// Leases to settle.
#[derive(Clone, Debug)]
pub struct SettleRequest {
    /// The partition.
    pub partition: u32,
    /// The consumer that has popped the messages.
    pub consumer: ConsumerId,
    /// The leases.
    pub receipts: Vec<Receipt>,
    /// What happens.
    pub action: SettleAction,
    /// How often a message is leased before it becomes a dead letter; 0: without limit.
    pub tries: u32,
    /// A lease that the consumer does not have was settled before, and the answer was lost. Else it has lapsed: a transaction must
    /// not have its effects again.
    pub is_repeatable: bool,
}

/// What a settlement did. If it is repeatable, settling again what was acknowledged or released does nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettleOutcome {
    /// The leases that have lapsed: nothing happened to their messages.
    pub lapsed: Vec<Receipt>,
    /// The new receipts of an extension.
    pub extended: Vec<Receipt>,
}

/// Settles leases.
pub fn settle(request: SettleRequest) -> impl QueueProcedure<Output = SettleOutcome> + Send {
    OptimisticTransaction::new(settle_decision(request))
}

/// The decision of a settlement, for a transaction that has other parts too.
pub fn settle_decision(request: SettleRequest) -> impl Decide<QueueError, Output = SettleOutcome> + Send {
    move |now: u64, reads: &mut QueueReads, writes: &mut Writes| decide(&request, now, reads, writes)
}

fn decide(
    request: &SettleRequest,
    now: u64,
    reads: &mut QueueReads,
    writes: &mut Writes,
) -> Result<SettleOutcome, QueuePause> {
    let SettleRequest { partition, consumer, ref receipts, action, tries, is_repeatable } = *request;
    if action == (SettleAction::Extend { lease: 0 }) {
        return Err(QueueError::BadLease.into());
    }
    let receipts: BTreeSet<Receipt> = receipts.iter().copied().collect();
    let consumer_key = keys::consumer(partition, consumer);
    let entries = receipts.iter().map(|receipt| keys::timed(partition, receipt.due, receipt.message));
    reads.require([consumer_key.clone()].into_iter().chain(entries))?;
    let mut record: ConsumerRecord = reads.get(&consumer_key)?.unwrap_or_default();
    let (mut outcome, mut changes) = (SettleOutcome::default(), GroupChanges::new(partition, now));
    let mut settled = 0;
    for receipt in receipts {
        if now > receipt.due && !is_planted(Bug::LapsedLeaseAcknowledged) {
            outcome.lapsed.push(receipt);
            continue;
        }
        let is_given = |lease: &Lease| lease.message == receipt.message && lease.due == receipt.due;
        let Some(given) = record.leases.iter().position(is_given) else {
            // An extended lease has another end.
            let is_settled = is_repeatable || is_planted(Bug::SettledAgainInTransaction);
            if !is_settled || receipt.due <= record.lapsed || matches!(action, SettleAction::Extend { .. }) {
                outcome.lapsed.push(receipt);
            }
            continue;
        };
        let key = keys::timed(partition, receipt.due, receipt.message);
        let entry = reads.get::<EntryRecord>(&key)?;
        let entry = entry.filter(|entry| entry.tries == receipt.tries && entry.consumer == Some(consumer));
        let Some(entry) = entry else {
            outcome.lapsed.push(receipt);
            continue;
        };
        let lease = if is_planted(Bug::SettledLeaseStays) {
            record.leases[given]
        } else {
            record.leases.swap_remove(given)
        };
        settled += 1;
        if !(is_planted(Bug::OldEntryStays) && matches!(action, SettleAction::Extend { .. })) {
            writes.remove(key);
        }
        match action {
            SettleAction::Acknowledge => {
                if let Some(place) = &entry.place {
                    changes.finish_first(reads, writes, place)?;
                }
                if !is_planted(Bug::MessageBytesStay) {
                    writes.remove(keys::message(partition, receipt.message));
                }
                writes.add(keys::counts(partition), CountsRecord::FINISHED, 1);
            }
            SettleAction::Release { .. } if tries > 0 && entry.tries >= tries => {
                bury(reads, writes, &mut changes, (partition, now), receipt.message, &entry)?;
            }
            SettleAction::Release { delay } => {
                let due = if delay == 0 { 0 } else { now.saturating_add(delay) };
                let tries = if is_planted(Bug::TriesForgotten) { 0 } else { entry.tries };
                let entry = EntryRecord { consumer: None, tries, ..entry };
                put_entry(writes, partition, now, receipt.message, due, &entry);
                writes.add(keys::counts(partition), CountsRecord::RETURNED, 1);
            }
            SettleAction::Extend { lease: time } => {
                let due = now.saturating_add(time);
                writes.put(keys::timed(partition, due, receipt.message), &entry);
                record.leases.push(Lease { due, ..lease });
                outcome.extended.push(Receipt { due, ..receipt });
            }
        }
    }
    if settled > 0 {
        changes.write(writes);
        // Without a record, what is settled again counts as settled before.
        if record.leases.is_empty() && record.lapsed < now {
            writes.remove(consumer_key);
        } else {
            writes.put(consumer_key, &record);
        }
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use zerohop_layer_procedure::{Attempt, AttemptStep, Record, Version, VersionedRecord};

    use super::*;
    use crate::planted::plant;

    /// Settles a lease that ends at 10 of a consumer that has none, at the time 5.
    fn settle_unknown(is_repeatable: bool) -> SettleOutcome {
        let receipt = Receipt { message: MessageId::default(), due: 10, tries: 1 };
        let mut attempt = Attempt::new(settle_decision(SettleRequest {
            partition: 0,
            consumer: ConsumerId([1; 16]),
            receipts: vec![receipt],
            action: SettleAction::Acknowledge,
            tries: 0,
            is_repeatable,
        }));
        let AttemptStep::Read(keys) = attempt.advance(5) else { panic!("it reads nothing") };
        let record = ConsumerRecord { number: 3, ..ConsumerRecord::default() }.encode();
        let of_consumer = keys::consumer(0, ConsumerId([1; 16]));
        let values = keys.iter().map(|key| {
            (*key == of_consumer).then(|| VersionedRecord { version: Version(1), value: record.clone() })
        });
        assert!(attempt.supply(values.collect()));
        let AttemptStep::Decided(Ok(outcome), writes) = attempt.advance(5) else { panic!("it fails") };
        assert!(writes.into_parts().0.is_empty());
        outcome
    }

    #[test]
    fn lease_is_settled_once_in_transactions() {
        assert_eq!(settle_unknown(true), SettleOutcome::default(), "the answer of the first one was lost");
        assert_eq!(settle_unknown(false).lapsed.len(), 1);
        plant(Some(Bug::SettledAgainInTransaction));
        let is_seen = settle_unknown(false).lapsed.is_empty();
        plant(None);
        assert!(is_seen);
    }
}
