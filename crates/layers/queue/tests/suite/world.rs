//! The simulated store. Each commit is compared with the model.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_layer_procedure::{Addition, Record, Version, VersionedRecord, Write};
use zerohop_layer_queue::keys::{self, RecordKey};
use zerohop_layer_queue::{
    ConsumerId, CountsRecord, EntryRecord, MessageId, MessageRecord, NewMessage, ProducerId, PushRequest,
    QueueEffect, QueueEvent,
};

use crate::model::{MessageState, Model};

/// The partition of all clients.
pub(crate) const PARTITION: u32 = 1;

/// What a transaction of a client does.
#[derive(Clone, Debug)]
pub(crate) enum Intent {
    None,
    Push(PushRequest),
    /// With the number of the pop.
    Pop(ConsumerId, u64),
    Acknowledge(ConsumerId),
    Release(ConsumerId, u64),
    Extend(ConsumerId),
    Redrive,
    Purge,
    Sweep,
}

#[derive(Default)]
pub(crate) struct QueueWorld {
    pub(crate) now: u64,
    version: u64,
    records: BTreeMap<RecordKey, (u64, Vec<u8>)>,
    pub(crate) model: Model,
    /// The last pop of each consumer that has got messages.
    pops: BTreeMap<ConsumerId, u64>,
}

const KIND: usize = 4;
const READY: u8 = 1;
const TIMED: u8 = 2;
const MESSAGE: u8 = 3;
const DEAD: u8 = 10;

fn message_of(key: &[u8]) -> Option<MessageId> {
    let bytes: [u8; 24] = key.get(5..)?.try_into().ok()?;
    Some(MessageId::from_bytes(bytes))
}

impl QueueWorld {
    fn read(&self, key: &[u8]) -> Option<VersionedRecord> {
        let (version, value) = self.records.get(key)?;
        Some(VersionedRecord { version: Version(*version), value: value.clone() })
    }

    /// Carries out an effect. The error is a violation.
    pub(crate) fn perform(
        &mut self,
        effect: &QueueEffect,
        intent: &Intent,
        begun: u64,
        random: &mut Random,
    ) -> Result<QueueEvent, String> {
        Ok(match effect {
            QueueEffect::Read(keys) => QueueEvent::Values(keys.iter().map(|key| self.read(key)).collect()),
            QueueEffect::Scan { from, to, limit, bytes } => {
                // Pages are shorter than asked for at times, as those of a store are.
                let limit = if random.chance(1, 4) { 1 + random.below(3) as usize } else { *limit };
                let (mut entries, mut next, mut sum) = (Vec::new(), None, 0);
                for (key, (_, value)) in self.records.range(from.clone()..to.clone().max(from.clone())) {
                    if entries.len() == limit || (sum >= *bytes && !entries.is_empty()) {
                        next = Some(key.clone());
                        break;
                    }
                    sum += value.len();
                    entries.push((key.clone(), value.clone()));
                }
                QueueEvent::Page { entries, next }
            }
            QueueEffect::Transact { conditions, writes, additions } => {
                let stands = |(key, version): &(RecordKey, Option<Version>)| {
                    self.read(key).map(|read| read.version) == *version
                };
                if !conditions.iter().all(stands) {
                    return Ok(QueueEvent::Conflict);
                }
                self.check(writes, intent, begun)?;
                self.commit(writes, additions)?;
                QueueEvent::Committed
            }
            QueueEffect::Own(never) => match *never {},
        })
    }

    fn is_leased_by(&self, id: MessageId, consumer: ConsumerId) -> bool {
        let state = self.model.messages.get(&id).map(|one| one.state);
        matches!(state, Some(MessageState::Leased { consumer: own, .. }) if own == consumer)
    }

    fn check(&mut self, writes: &[Write], intent: &Intent, begun: u64) -> Result<(), String> {
        let now = self.now;
        let mut pop = None;
        for write in writes {
            let kind = write.key.get(KIND).copied().ok_or("a key is short")?;
            match (kind, &write.value, intent) {
                (MESSAGE, Some(value), Intent::Push(request)) => {
                    let id = message_of(&write.key).ok_or("a message has no id")?;
                    let stored = MessageRecord::decode(value).ok_or("a message is written that is none")?;
                    let index = id.number.checked_sub(request.first).ok_or("another message is pushed")?;
                    let meant: &NewMessage =
                        request.messages.get(index as usize).ok_or("another message is pushed")?;
                    if id.producer != request.producer || stored.value != meant.value {
                        return Err("another message is pushed".to_owned());
                    }
                    self.model.push(now, begun, id, meant.clone())?;
                }
                (MESSAGE, None, Intent::Acknowledge(consumer)) => {
                    let id = message_of(&write.key).ok_or("a message has no id")?;
                    self.model.finish(begun, id, *consumer)?;
                }
                (MESSAGE, None, Intent::Purge) => {
                    self.model.purge(message_of(&write.key).ok_or("a message has no id")?)?;
                }
                (MESSAGE, _, intent) => return Err(format!("{intent:?} writes a message")),
                (TIMED, Some(value), intent) => {
                    let (due, id) = keys::time_and_message(&write.key).ok_or("an entry has no message")?;
                    let entry = EntryRecord::decode(value).ok_or("an entry is written that is none")?;
                    match intent {
                        Intent::Pop(consumer, number) if entry.consumer == Some(*consumer) => {
                            if self.pops.get(consumer) >= Some(number) {
                                return Err(format!("pop {number} of {consumer:?} gets messages twice"));
                            }
                            pop = Some((*consumer, *number));
                            self.model.lease(now, id, *consumer, due, entry.tries)?;
                        }
                        Intent::Extend(consumer) => self.model.extend(id, *consumer, due)?,
                        // The next message of its group gets an entry too.
                        Intent::Release(consumer, delay)
                            if entry.consumer.is_none() && self.is_leased_by(id, *consumer) =>
                        {
                            self.model.release(id, *consumer, begun + delay)?;
                        }
                        _ => {}
                    }
                }
                (READY, Some(_), Intent::Release(consumer, delay)) => {
                    let (_, id) = keys::time_and_message(&write.key).ok_or("an entry has no message")?;
                    if self.is_leased_by(id, *consumer) {
                        self.model.release(id, *consumer, begun + delay)?;
                    }
                }
                (DEAD, Some(_), intent) => {
                    let (_, id) = keys::time_and_message(&write.key).ok_or("a dead letter has no message")?;
                    let by = match intent {
                        Intent::Release(consumer, _) => Some(*consumer),
                        _ => None,
                    };
                    self.model.die(id, now, by)?;
                }
                (DEAD, None, Intent::Redrive) => {
                    let (_, id) = keys::time_and_message(&write.key).ok_or("a dead letter has no message")?;
                    self.model.redrive(id)?;
                }
                _ => {}
            }
        }
        self.pops.extend(pop);
        Ok(())
    }

    fn commit(&mut self, writes: &[Write], additions: &[Addition]) -> Result<(), String> {
        self.version += 1;
        for write in writes {
            match &write.value {
                Some(value) => self.records.insert(write.key.clone(), (self.version, value.clone())),
                None => self.records.remove(&write.key),
            };
        }
        for Addition { key, offset, by } in additions {
            let (version, value) = self.records.get_mut(key).ok_or("an addition finds no record")?;
            *version = self.version;
            let place = *offset as usize..*offset as usize + 8;
            let number: [u8; 8] = value[place.clone()].try_into().map_err(|_| "a number has 8 bytes")?;
            let sum = u64::from_le_bytes(number).wrapping_add_signed(*by);
            value[place].copy_from_slice(&sum.to_le_bytes());
        }
        Ok(())
    }

    /// What must hold when no procedure is under way, and each message is finished, dead or removed.
    pub(crate) fn check_end(&self, producers: &[ProducerId]) -> Result<(), String> {
        let counts = self.read(&keys::counts(PARTITION)).and_then(|read| CountsRecord::decode(&read.value));
        let counts = counts.ok_or("the counts are gone")?;
        if counts.depth() != self.model.depth() || self.model.depth() != 0 {
            return Err(format!("{counts:?} are counted, and {} messages are there", self.model.depth()));
        }
        let dead = self.model.count(|state| *state == MessageState::Dead);
        let of_kind =
            |kind: u8| self.records.keys().filter(|key| key[..=KIND] == [0, 0, 0, 1, kind]).count() as u64;
        let left: Vec<u64> = (0..=10).map(of_kind).collect();
        let expected = [1, 0, 0, dead, 0, 0, left[6], producers.len() as u64, 0, 0, dead];
        if left != expected {
            return Err(format!("records of the kinds are left: {left:?}, not {expected:?}"));
        }
        Ok(())
    }
}
