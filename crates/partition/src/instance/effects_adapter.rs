//! Passes the effects of a partition on, and adds data that only the instance has: the origin of the answer, and the map.

use std::borrow::Cow;

use zerohop_placement::MapHistory;
use zerohop_transaction::{RoutingKey as TransactionPlace, TransactionId, TransactionPart};
use zerohop_wire::ids::KeyspaceId;
use zerohop_wire::messages::Member;
use zerohop_wire::{Failure, Message};

use super::connections::Connections;
use super::stats::RequestCounters;
use super::transactions::{Transit, misplaced};
use super::{AnswerOrigin, InstanceEffects};
use crate::event::Token;

/// The effects of the partition at `place`.
pub(super) struct Relay<'r> {
    pub(super) history: &'r MapHistory,
    pub(super) connections: &'r mut Connections,
    pub(super) counters: &'r mut RequestCounters,
    pub(super) transit: &'r mut Transit,
    pub(super) out: &'r mut dyn InstanceEffects,
    pub(super) place: AnswerOrigin,
    /// The sender of messages to other members.
    pub(super) me: Member,
    pub(super) wants_flush: bool,
}

impl Relay<'_> {
    /// The partition is not served here, or is at another epoch: sends the changes that the client's map lacks.
    pub(super) fn wrong_owner(&mut self, to: Token) {
        let since = self.history.since(self.connections.epoch(to.connection));
        self.connections.has(to.connection, since.epoch);
        let failure = Failure::WrongOwner { epoch: since.epoch, delta: Cow::Owned(since.encoded) };
        self.answer(to, &Message::Answer(Err(failure)));
    }

    pub(super) fn answer(&mut self, to: Token, message: &Message<'_>) {
        if let Message::Answer(Err(failure)) = message {
            self.counters.failed(failure.code());
        }
        self.out.answer(to, self.place, message);
    }

    pub(super) fn fail(&mut self, to: Token, failure: Failure<'_>) {
        self.answer(to, &Message::Answer(Err(failure)));
    }
}

impl crate::PartitionEffects for Relay<'_> {
    fn answer(&mut self, to: Token, message: &Message<'_>) {
        Relay::answer(self, to, message);
    }

    fn answer_held(&mut self, to: Token, message: &Message<'_>, held_us: u32) {
        self.place.held_us = held_us;
        Relay::answer(self, to, message);
        self.place.held_us = 0;
    }

    fn reply(&mut self, to: Token, bytes: &[u8]) {
        self.out.reply(to, bytes);
    }

    fn wrong_owner(&mut self, to: Token) {
        Relay::wrong_owner(self, to);
    }

    fn dropped(&mut self, to: Token) {
        self.counters.let_go += 1;
        self.out.let_go(to);
    }

    fn transaction(&mut self, message: zerohop_transaction::Message) {
        self.transit.push(message);
    }

    fn transaction_lost(&mut self, id: TransactionId, place: TransactionPlace) {
        self.counters.trouble_text(if place == id.coordinator {
            format!("transaction {id} ends undone here: the keyspace that was to decide it, or had, is gone")
        } else {
            format!("transaction {id} is decided, and what it changes at {place} is lost there")
        });
    }

    fn misplaced(&mut self, parts: &[TransactionPart]) -> Option<u32> {
        misplaced(self.history.map(), parts)
    }

    fn has_keyspace(&self, keyspace: KeyspaceId) -> bool {
        self.history.map().keyspace(keyspace).is_some()
    }

    fn is_closing(&self, keyspace: KeyspaceId) -> bool {
        self.history.map().keyspace(keyspace).is_some_and(|found| found.is_closing())
    }

    fn flush_wanted(&mut self) {
        self.wants_flush = true;
    }
}
