//! The interface that a transaction needs from its partition.

use bytes::Bytes;
use zerohop_wire::ids::Timestamp;

use crate::id::{StageId, TransactionId};
use crate::item::TransactionItem;
use crate::reason::Refusal;
use crate::state::Install;

/// The result of the evaluation of a part's items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvaluatedPart {
    /// The changes at the commit, opaque here; at most [`crate::limits::EFFECT_BYTES_MAX`] bytes.
    pub effect: Bytes,
    /// The results of the items, opaque here.
    pub result: Bytes,
}

/// What the session table knows of a transaction that its coordinator is neither running nor has decided without finishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKnowledge {
    /// The transaction has an outcome, committed in the log. Or it can never start: its sequence is below the lowest
    /// unanswered one, or its session has expired.
    Over,
    /// Its request may still arrive.
    Unknown,
}

/// The partition, as its primary sees it.
pub trait PartitionHost {
    /// A timestamp above every timestamp at which anything in this partition was ever read, written or proposed, by this
    /// primary or any before it.
    fn propose(&mut self) -> Timestamp;

    /// From now on every proposal is above `to`.
    fn raise(&mut self, to: Timestamp);

    /// Whether a timestamp is too far ahead of this clock to be followed.
    fn is_ahead(&self, timestamp: Timestamp) -> bool;

    /// The newest version of the record that an item names, including appended entries; [`Timestamp::ZERO`] if there is
    /// none.
    fn version(&self, item: &TransactionItem) -> Timestamp;

    /// Evaluates the items one after the other, including appended entries. No other transaction can change what they name
    /// until this one has ended, except for transforms beside transforms of the same kind, which are evaluated when they are
    /// installed. Errors: a declared condition that does not hold, items of another partition, limits.
    fn evaluate(&self, items: &[TransactionItem]) -> Result<EvaluatedPart, Refusal>;

    /// A committed entry changes records: they change now, at this version. This is a call and not an effect because the
    /// next transaction in the queue is evaluated in the same step, over this result. Replicas get the same from
    /// [`ParticipantState::apply`].
    ///
    /// [`ParticipantState::apply`]: crate::ParticipantState::apply
    fn install(&mut self, install: &Install);

    /// The bytes of a staged piece, if it exists and is committed.
    fn staged(&self, id: &StageId) -> Option<Bytes>;

    /// What the session table, as of the commit index, knows of a transaction.
    fn known(&self, id: &TransactionId) -> SessionKnowledge;
}
