//! What a partition must be: each message, and the consumer that may have it.

use std::collections::BTreeMap;

use zerohop_layer_queue::{ConsumerId, MessageId, NewMessage};

pub(crate) const TRIES: u32 = 3;
pub(crate) const NAMES: u64 = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageState {
    /// No consumer has it; before this moment none may.
    Free {
        from: u64,
    },
    Leased {
        consumer: ConsumerId,
        due: u64,
    },
    Finished {
        consumer: ConsumerId,
        due: u64,
    },
    Dead,
    Purged,
}

#[derive(Clone, Debug)]
pub(crate) struct ModelMessage {
    pub(crate) message: NewMessage,
    pub(crate) state: MessageState,
    pub(crate) tries: u32,
    /// Its place among all pushes.
    place: u64,
}

/// The messages of a partition.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) messages: BTreeMap<MessageId, ModelMessage>,
    names: BTreeMap<(Option<String>, String), u64>,
    places: u64,
}

impl Model {
    pub(crate) fn push(
        &mut self,
        now: u64,
        begun: u64,
        id: MessageId,
        message: NewMessage,
    ) -> Result<(), String> {
        if self.messages.contains_key(&id) {
            return Err(format!("{id} is pushed twice"));
        }
        if let Some(name) = &message.name {
            let until = self.names.entry((message.group.clone(), name.clone())).or_default();
            if *until > now {
                return Err(format!("{id} is pushed although its name counts until {until}"));
            }
            // Its end is counted from a moment between both.
            *until = begun + NAMES;
        }
        self.places += 1;
        let state = MessageState::Free { from: if message.delay > 0 { begun + message.delay } else { 0 } };
        self.messages.insert(id, ModelMessage { message, state, tries: 0, place: self.places });
        Ok(())
    }

    fn get(&mut self, id: MessageId) -> Result<&mut ModelMessage, String> {
        self.messages.get_mut(&id).ok_or_else(|| format!("{id} was never pushed"))
    }

    pub(crate) fn lease(
        &mut self,
        now: u64,
        id: MessageId,
        consumer: ConsumerId,
        due: u64,
        tries: u32,
    ) -> Result<(), String> {
        let one = self.get(id)?.clone();
        let (group, place) = (one.message.group.clone(), one.place);
        match one.state {
            MessageState::Free { from } if now < from => {
                return Err(format!("{id} is leased before its delay has ended"));
            }
            MessageState::Leased { due, .. } if now < due => {
                return Err(format!("{id} is leased to two consumers"));
            }
            MessageState::Free { .. } | MessageState::Leased { .. } => {}
            state => return Err(format!("{id} is leased, and {state:?}")),
        }
        let is_ahead = |other: &&ModelMessage| {
            other.place < place
                && matches!(other.state, MessageState::Free { .. } | MessageState::Leased { .. })
                && other.message.group == group
        };
        if group.is_some() && self.messages.values().any(|other| is_ahead(&other)) {
            return Err(format!("{id} is leased before others of its group"));
        }
        let one = self.get(id)?;
        one.tries += 1;
        if one.tries != tries || tries > TRIES {
            return Err(format!("{id} is leased for the {}th time, called {tries}", one.tries));
        }
        one.state = MessageState::Leased { consumer, due };
        Ok(())
    }

    fn leased_by(&mut self, id: MessageId, consumer: ConsumerId) -> Result<(u64, &mut ModelMessage), String> {
        let one = self.get(id)?;
        match one.state {
            MessageState::Leased { consumer: own, due } if own == consumer => Ok((due, one)),
            state => Err(format!("{consumer:?} settles {id}, which is {state:?}")),
        }
    }

    /// `begun`: when the settlement began.
    pub(crate) fn finish(&mut self, begun: u64, id: MessageId, consumer: ConsumerId) -> Result<(), String> {
        let (due, one) = self.leased_by(id, consumer)?;
        if begun > due {
            return Err(format!("{id} is acknowledged behind the end of its lease"));
        }
        one.state = MessageState::Finished { consumer, due };
        Ok(())
    }

    pub(crate) fn release(&mut self, id: MessageId, consumer: ConsumerId, from: u64) -> Result<(), String> {
        let (_, one) = self.leased_by(id, consumer)?;
        one.state = MessageState::Free { from };
        Ok(())
    }

    pub(crate) fn extend(&mut self, id: MessageId, consumer: ConsumerId, due: u64) -> Result<(), String> {
        let (_, one) = self.leased_by(id, consumer)?;
        one.state = MessageState::Leased { consumer, due };
        Ok(())
    }

    pub(crate) fn die(
        &mut self,
        id: MessageId,
        now: u64,
        settled_by: Option<ConsumerId>,
    ) -> Result<(), String> {
        let one = self.get(id)?;
        let is_free = match one.state {
            MessageState::Free { from } => from <= now,
            MessageState::Leased { consumer, due } => due <= now || settled_by == Some(consumer),
            _ => false,
        };
        if !is_free || one.tries != TRIES {
            return Err(format!("{id} dies after {} leases, and is {:?}", one.tries, one.state));
        }
        one.state = MessageState::Dead;
        Ok(())
    }

    pub(crate) fn redrive(&mut self, id: MessageId) -> Result<(), String> {
        self.places += 1;
        let places = self.places;
        let one = self.get(id)?;
        if one.state != MessageState::Dead {
            return Err(format!("{id} is pushed again, and {:?}", one.state));
        }
        *one = ModelMessage { state: MessageState::Free { from: 0 }, tries: 0, place: places, ..one.clone() };
        Ok(())
    }

    pub(crate) fn purge(&mut self, id: MessageId) -> Result<(), String> {
        let one = self.get(id)?;
        if one.state != MessageState::Dead {
            return Err(format!("{id} is removed, and {:?}", one.state));
        }
        one.state = MessageState::Purged;
        Ok(())
    }

    pub(crate) fn count(&self, is_meant: impl Fn(&MessageState) -> bool) -> u64 {
        self.messages.values().filter(|one| is_meant(&one.state)).count() as u64
    }

    /// Messages that are not finished and not dead.
    pub(crate) fn depth(&self) -> u64 {
        self.count(|state| matches!(state, MessageState::Free { .. } | MessageState::Leased { .. }))
    }
}
