//! A producer that numbers its messages.

use std::collections::BTreeMap;

use zerohop_layer_queue::{MessageId, NewMessage, ProducerId, PushRequest, QueueError, push};

use crate::client::QueueClient;
use crate::retry;

/// The most messages of a transaction.
const MESSAGES_MAX: usize = 512;
/// The bytes of messages that end a transaction; one message may have more.
const BYTES_MAX: usize = 1 << 20;

/// Pushes messages, each of them once: a push whose answer is lost is repeated under its numbers.
#[derive(Debug)]
pub struct QueueProducer {
    queue: QueueClient,
    id: ProducerId,
    /// The number of the next message.
    next: u64,
    next_partition: u32,
    /// A push has begun and not ended.
    is_pushing: bool,
}

impl QueueProducer {
    /// A producer with a random id.
    #[must_use]
    pub fn new(queue: QueueClient) -> Self {
        let random = queue.random();
        let next_partition = u32::from(random[0]) % queue.options().partitions.max(1);
        Self { queue, id: ProducerId(random), next: 1, next_partition, is_pushing: false }
    }

    /// The queue.
    #[must_use]
    pub const fn queue(&self) -> &QueueClient {
        &self.queue
    }

    /// Pushes messages. Messages of one partition are pushed together, as far as a transaction allows; messages without a group
    /// or a name go to the partitions in turn. While the cluster does not answer, a push is repeated until `until`, in milliseconds
    /// since 1970. Result: the ids of the messages, in their order, and how many were not pushed because of their names.
    ///
    /// # Errors
    /// [`QueueError::MessageTooLong`] and [`QueueError::BadName`], after which nothing was pushed; those of the store: after
    /// [`QueueError::Unavailable`] some messages may be in the queue.
    pub async fn push(
        &mut self,
        messages: Vec<NewMessage>,
        until: u64,
    ) -> Result<(Vec<MessageId>, usize), QueueError> {
        messages.iter().try_for_each(NewMessage::check)?;
        if std::mem::replace(&mut self.is_pushing, true) {
            // The messages of a dropped future have the next numbers, and others under them would count as a repetition.
            self.begin_again();
        }
        let pushed = self.push_parts(messages, until).await;
        self.is_pushing = false;
        if pushed.is_err() {
            // An attempt without an answer may be applied later.
            self.begin_again();
        }
        pushed
    }

    async fn push_parts(
        &mut self,
        messages: Vec<NewMessage>,
        until: u64,
    ) -> Result<(Vec<MessageId>, usize), QueueError> {
        let any = self.next_partition;
        self.next_partition = (any + 1) % self.queue.options().partitions.max(1);
        let mut ids = vec![MessageId::default(); messages.len()];
        let mut duplicates = 0;
        let mut parts: BTreeMap<u32, Vec<(usize, NewMessage)>> = BTreeMap::new();
        for (index, message) in messages.into_iter().enumerate() {
            let partition = self.queue.partition_of(&message).unwrap_or(any);
            parts.entry(partition).or_default().push((index, message));
        }
        for (partition, part) in parts {
            for batch in batches(part) {
                let (indexes, messages): (Vec<usize>, Vec<NewMessage>) = batch.into_iter().unzip();
                let (producer, first, names) = (self.id, self.next, self.queue.options().names);
                self.next += messages.len() as u64;
                let request =
                    PushRequest { partition, producer, first, messages, names, is_remembered: true };
                let ready = request.messages.iter().filter(|message| message.delay == 0).count();
                let outcome = retry::run(&self.queue.store, until, |_| push(request.clone())).await?;
                indexes.into_iter().zip(outcome.messages).for_each(|(index, id)| ids[index] = id);
                duplicates += outcome.duplicates;
                self.queue.note_pushed(partition, ready.saturating_sub(outcome.duplicates) as u64);
            }
        }
        Ok((ids, duplicates))
    }

    fn begin_again(&mut self) {
        self.id = ProducerId(self.queue.random());
        self.next = 1;
    }
}

/// Divides messages into those of one transaction each.
fn batches(messages: Vec<(usize, NewMessage)>) -> Vec<Vec<(usize, NewMessage)>> {
    let mut all: Vec<Vec<(usize, NewMessage)>> = Vec::new();
    let mut bytes = 0;
    for (index, message) in messages {
        let more = message.value.len();
        match all.last_mut() {
            Some(batch) if batch.len() < MESSAGES_MAX && bytes + more <= BYTES_MAX => {
                bytes += more;
                batch.push((index, message));
            }
            _ => {
                bytes = more;
                all.push(vec![(index, message)]);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_few_messages_and_bytes_and_are_in_order() {
        let message = |bytes: usize| NewMessage { value: vec![0; bytes], ..NewMessage::default() };
        let of = |bytes: &[usize]| {
            let messages = bytes.iter().map(|bytes| message(*bytes)).enumerate().collect();
            batches(messages)
                .iter()
                .map(|batch| batch.iter().map(|(index, _)| *index).collect())
                .collect::<Vec<Vec<_>>>()
        };
        assert_eq!(of(&[]), Vec::<Vec<usize>>::new());
        assert_eq!(of(&[BYTES_MAX + 1, 1, BYTES_MAX - 1, 1]), [vec![0], vec![1, 2], vec![3]]);
        assert_eq!(of(&[0; MESSAGES_MAX + 1]).len(), 2);
    }
}
