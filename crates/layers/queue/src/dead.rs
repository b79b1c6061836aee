//! Dead letters: messages that were leased as often as the queue allows, and not acknowledged.

use zerohop_layer_procedure::{OptimisticTransaction, Procedure, Record, Writes};

use crate::error::QueueError;
use crate::group_order::{GroupChanges, put_entry};
use crate::keys::{self, RecordKey};
use crate::procedure::{QueueEvent, QueuePause, QueueProcedure, QueueReads, QueueStep};
use crate::records::{CountsRecord, DeadRecord, EntryRecord, MessageId, MessageRecord, WaitingRecord};

/// The bytes of messages that end a page.
const PAGE_BYTES: usize = 4 << 20;

/// Makes a message a dead letter. The caller removes its entry.
pub(crate) fn bury(
    reads: &mut QueueReads,
    writes: &mut Writes,
    changes: &mut GroupChanges,
    (partition, now): (u32, u64),
    message: MessageId,
    entry: &EntryRecord,
) -> Result<(), QueuePause> {
    if let Some(place) = &entry.place {
        changes.finish_first(reads, writes, place)?;
    }
    writes.put(keys::dead(partition, now, message), &DeadRecord { tries: entry.tries, bytes: entry.bytes });
    writes.add(keys::counts(partition), CountsRecord::DEAD, 1);
    Ok(())
}

/// A dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// When it became one, in milliseconds since 1970.
    pub died: u64,
    /// The message.
    pub id: MessageId,
    /// How often it was leased.
    pub tries: u32,
    /// The message.
    pub message: MessageRecord,
}

/// Dead letters, the oldest first, and where the list continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadPage {
    /// The dead letters.
    pub letters: Vec<DeadLetter>,
    /// The key at which the list continues; nothing at its end.
    pub next: Option<RecordKey>,
}

enum ListState {
    Idle,
    Scanning,
    Reading(Vec<(u64, MessageId, u32)>, Option<RecordKey>),
}

/// Lists dead letters of a partition.
pub struct ListDead {
    partition: u32,
    from: RecordKey,
    letters: usize,
    state: ListState,
}

impl ListDead {
    /// At most `letters` dead letters, from the beginning or from where a page ended.
    #[must_use]
    pub fn new(partition: u32, from: Option<RecordKey>, letters: usize) -> Self {
        let from = from.unwrap_or_else(|| keys::all_dead(partition).0);
        Self { partition, from, letters: letters.max(1), state: ListState::Idle }
    }

    fn collect(
        &mut self,
        entries: Vec<(RecordKey, Vec<u8>)>,
        mut next: Option<RecordKey>,
    ) -> QueueStep<DeadPage> {
        let (mut found, mut bytes) = (Vec::with_capacity(entries.len()), 0);
        for (key, value) in entries {
            let dead = keys::time_and_message(&key).zip(DeadRecord::decode(&value));
            let Some(((died, id), record)) = dead else { return QueueStep::fail(QueueError::Corrupt(key)) };
            bytes += record.bytes as usize;
            if bytes > PAGE_BYTES && !found.is_empty() {
                next = Some(key);
                break;
            }
            found.push((died, id, record.tries));
        }
        if found.is_empty() {
            return QueueStep::Done(Ok(DeadPage { letters: Vec::new(), next }));
        }
        let messages = found.iter().map(|(_, id, _)| keys::message(self.partition, *id)).collect();
        self.state = ListState::Reading(found, next);
        QueueStep::Effect(zerohop_layer_procedure::Effect::Read(messages))
    }
}

impl Procedure<QueueError> for ListDead {
    type Output = DeadPage;

    fn step(&mut self, _: u64, event: QueueEvent) -> QueueStep<DeadPage> {
        match (std::mem::replace(&mut self.state, ListState::Idle), event) {
            (ListState::Idle, QueueEvent::Start) => {
                self.state = ListState::Scanning;
                QueueStep::Effect(zerohop_layer_procedure::Effect::Scan {
                    from: self.from.clone(),
                    to: keys::all_dead(self.partition).1,
                    limit: self.letters,
                    bytes: PAGE_BYTES,
                })
            }
            (ListState::Scanning, QueueEvent::Page { entries, next }) => self.collect(entries, next),
            (ListState::Reading(found, next), QueueEvent::Values(values)) => {
                let mut letters = Vec::with_capacity(found.len());
                for ((died, id, tries), value) in found.into_iter().zip(values) {
                    // One that is gone was pushed again or removed meanwhile.
                    let Some(value) = value else { continue };
                    let Some(message) = MessageRecord::decode(&value.value) else {
                        return QueueStep::fail(QueueError::Corrupt(keys::message(self.partition, id)));
                    };
                    letters.push(DeadLetter { died, id, tries, message });
                }
                QueueStep::Done(Ok(DeadPage { letters, next }))
            }
            (_, event) => QueueStep::unexpected(&event),
        }
    }
}

/// Pushes dead letters again, those of groups behind all messages of their groups. Result: how many were still there.
pub fn redrive_dead(
    partition: u32,
    letters: Vec<(u64, MessageId)>,
) -> impl QueueProcedure<Output = usize> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut QueueReads, writes: &mut Writes| {
        let mut changes = GroupChanges::new(partition, now);
        let all = found(reads, partition, &letters)?;
        let count = all.len();
        for (died, id, message) in all {
            let message = message.ok_or_else(|| QueueError::Corrupt(keys::message(partition, id)))?;
            let bytes = u32::try_from(message.value.len()).unwrap_or(u32::MAX);
            writes.remove(keys::dead(partition, died, id));
            match &message.group {
                Some(group) => {
                    let waiting = WaitingRecord { message: id, due: 0, pushed: now, bytes };
                    changes.append(reads, writes, group, waiting)?;
                }
                None => {
                    let entry = EntryRecord { pushed: now, tries: 0, bytes, consumer: None, place: None };
                    put_entry(writes, partition, now, id, 0, &entry);
                }
            }
        }
        changes.write(writes);
        if count > 0 {
            writes.add(keys::counts(partition), CountsRecord::PUSHED, count as i64);
        }
        Ok(count)
    })
}

/// Removes dead letters. Result: how many were still there.
pub fn purge_dead(
    partition: u32,
    letters: Vec<(u64, MessageId)>,
) -> impl QueueProcedure<Output = usize> + Send {
    OptimisticTransaction::new(move |_, reads: &mut QueueReads, writes: &mut Writes| {
        let all = found(reads, partition, &letters)?;
        for (died, id, _) in &all {
            writes.remove(keys::dead(partition, *died, *id));
            writes.remove(keys::message(partition, *id));
        }
        Ok(all.len())
    })
}

type LetterRecord = (u64, MessageId, Option<MessageRecord>);

/// Those of the dead letters that are still there.
fn found(
    reads: &mut QueueReads,
    partition: u32,
    letters: &[(u64, MessageId)],
) -> Result<Vec<LetterRecord>, QueuePause> {
    let keys = letters
        .iter()
        .flat_map(|(died, id)| [keys::dead(partition, *died, *id), keys::message(partition, *id)]);
    reads.require(keys)?;
    let mut all = Vec::with_capacity(letters.len());
    for (died, id) in letters {
        if reads.get::<DeadRecord>(&keys::dead(partition, *died, *id))?.is_some() {
            all.push((*died, *id, reads.get(&keys::message(partition, *id))?));
        }
    }
    Ok(all)
}
