//! Pushes messages: one transaction in one region.

use zerohop_layer_procedure::{Decide, OptimisticTransaction, Writes};

use crate::error::QueueError;
use crate::group_order::{GroupChanges, put_entry};
use crate::keys;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::planted::{Bug, is_planted};
use crate::procedure::{QueuePause, QueueProcedure, QueueReads};
use crate::records::{
    CountsRecord, EntryRecord, MessageId, MessageRecord, NameRecord, ProducerId, ProducerRecord,
    WaitingRecord,
};

/// A message to push.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// Its bytes.
    pub value: Vec<u8>,
    /// Its group: messages of a group are popped in the order of their pushes, one at a time.
    pub group: Option<String>,
    /// Its name in its group: while it counts, a message of the same name is not pushed.
    pub name: Option<String>,
    /// How long it is not ready, in milliseconds.
    pub delay: u64,
}

/// A push.
#[derive(Clone, Debug)]
pub struct PushRequest {
    /// The partition. All messages of a group go to one partition, and all of a name.
    pub partition: u32,
    /// The producer.
    pub producer: ProducerId,
    /// The number of the first message, at least 1 and above all that the producer has pushed into the partition. The others
    /// follow. A repeated push has the same numbers.
    pub first: u64,
    /// The messages.
    pub messages: Vec<NewMessage>,
    /// How long a name counts, in milliseconds; 0: not at all.
    pub names: u64,
    /// The partition remembers the numbers, so that a repeated push is known.
    pub is_remembered: bool,
}

/// What a push did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushOutcome {
    /// For each message its own id, or that of the message with its name.
    pub messages: Vec<MessageId>,
    /// How many of them were not pushed because of their names.
    pub duplicates: usize,
}

/// Pushes messages.
pub fn push(request: PushRequest) -> impl QueueProcedure<Output = PushOutcome> + Send {
    OptimisticTransaction::new(push_decision(request))
}

/// The decision of a push, for a transaction that has other parts too.
pub fn push_decision(request: PushRequest) -> impl Decide<QueueError, Output = PushOutcome> + Send {
    move |now: u64, reads: &mut QueueReads, writes: &mut Writes| decide(&request, now, reads, writes)
}

fn decide(
    request: &PushRequest,
    now: u64,
    reads: &mut QueueReads,
    writes: &mut Writes,
) -> Result<PushOutcome, QueuePause> {
    let PushRequest { partition, producer, first, ref messages, names, is_remembered } = *request;
    messages.iter().try_for_each(NewMessage::check)?;
    if messages.is_empty() {
        return Ok(PushOutcome::default());
    }
    let producer_key = keys::producer(partition, producer);
    let of_name = |message: &NewMessage| {
        let name = message.name.as_deref().filter(|_| names > 0)?;
        Some(keys::name(partition, message.group.as_deref().unwrap_or_default(), name))
    };
    let groups = messages.iter().filter_map(|message| message.group.as_deref());
    let groups = groups.map(|group| keys::group(partition, group));
    let remembered = is_remembered.then(|| producer_key.clone());
    reads.require(remembered.into_iter().chain(groups).chain(messages.iter().filter_map(of_name)))?;
    let before: ProducerRecord =
        if is_remembered { reads.get(&producer_key)?.unwrap_or_default() } else { ProducerRecord::default() };
    let last = first + messages.len() as u64 - 1;
    if before.number >= first && !is_planted(Bug::RepeatedPushCounts) {
        return repeated(&before, (producer, first, last));
    }
    let mut outcome = PushOutcome::default();
    let mut changes = GroupChanges::new(partition, now);
    let mut duplicates = Vec::new();
    for (number, message) in (first..).zip(messages) {
        let id = MessageId { producer, number };
        if let Some(key) = of_name(message) {
            // The same name may stand twice in one push.
            let earlier = messages
                .iter()
                .zip(&outcome.messages)
                .rfind(|(other, _)| of_name(other).as_ref() == Some(&key));
            let named = match earlier {
                Some((_, earlier)) => Some(*earlier),
                None => live_name(reads, &key, now)?,
            };
            if let Some(named) = named {
                outcome.messages.push(named);
                duplicates.push((number, named));
                continue;
            }
            let record = NameRecord { message: id, until: now.saturating_add(names) };
            put_name(reads, writes, partition, &key, message, record)?;
        }
        outcome.messages.push(id);
        put_message(reads, writes, &mut changes, (partition, now), id, message)?;
    }
    outcome.duplicates = duplicates.len();
    changes.write(writes);
    if is_remembered {
        writes.put(producer_key, &ProducerRecord { number: last, used: now, duplicates });
    }
    let pushed = messages.len() - outcome.duplicates;
    if pushed > 0 {
        writes.add(keys::counts(partition), CountsRecord::PUSHED, pushed as i64);
    }
    Ok(outcome)
}

/// What the last push of a producer did.
fn repeated(
    before: &ProducerRecord,
    (producer, first, last): (ProducerId, u64, u64),
) -> Result<PushOutcome, QueuePause> {
    if before.number != last {
        return Err(QueueError::OldPush { number: before.number }.into());
    }
    let own = |number| MessageId { producer, number };
    let named = |number| before.duplicates.iter().find(|(one, _)| *one == number).map(|(_, id)| *id);
    let messages = (first..=last).map(|number| named(number).unwrap_or_else(|| own(number))).collect();
    Ok(PushOutcome { messages, duplicates: before.duplicates.len() })
}

impl NewMessage {
    /// Checks its length, its group and its name.
    ///
    /// # Errors
    /// [`QueueError::MessageTooLong`], [`QueueError::BadName`].
    pub fn check(&self) -> Result<(), QueueError> {
        if self.value.len() > MESSAGE_BYTES_MAX {
            return Err(QueueError::MessageTooLong { bytes: self.value.len() });
        }
        self.group.iter().chain(&self.name).try_for_each(|name| keys::check_name(name).map(drop))
    }
}

/// The message whose name counts at `now`.
fn live_name(reads: &mut QueueReads, key: &[u8], now: u64) -> Result<Option<MessageId>, QueuePause> {
    let name = reads.get::<NameRecord>(key)?;
    let name = name.filter(|name| name.until > now && !is_planted(Bug::NameNotChecked));
    Ok(name.map(|name| name.message))
}

fn put_name(
    reads: &mut QueueReads,
    writes: &mut Writes,
    partition: u32,
    key: &[u8],
    message: &NewMessage,
    record: NameRecord,
) -> Result<(), QueuePause> {
    let group = message.group.as_deref().unwrap_or_default();
    let name = message.name.as_deref().unwrap_or_default();
    if let Some(old) = reads.get::<NameRecord>(key)? {
        writes.remove(keys::name_end(partition, old.until, group, name));
    }
    writes.put(key.to_vec(), &record);
    writes.put_empty(keys::name_end(partition, record.until, group, name));
    Ok(())
}

fn put_message(
    reads: &mut QueueReads,
    writes: &mut Writes,
    changes: &mut GroupChanges,
    (partition, now): (u32, u64),
    id: MessageId,
    message: &NewMessage,
) -> Result<(), QueuePause> {
    let NewMessage { value, group, name, delay } = message;
    let bytes = u32::try_from(value.len()).map_err(|_| QueueError::MessageTooLong { bytes: value.len() })?;
    let due = if *delay == 0 { 0 } else { now.saturating_add(*delay) };
    let record =
        MessageRecord { pushed: now, group: group.clone(), name: name.clone(), value: value.clone() };
    writes.put(keys::message(partition, id), &record);
    match group {
        Some(group) => {
            changes.append(reads, writes, group, WaitingRecord { message: id, due, pushed: now, bytes })
        }
        None => {
            let entry = EntryRecord { pushed: now, tries: 0, bytes, consumer: None, place: None };
            put_entry(writes, partition, now, id, due, &entry);
            Ok(())
        }
    }
}
