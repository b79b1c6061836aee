//! What a transaction needs of the partition in which it takes part.

use bytes::Bytes;
use zerohop_wire::ids::Timestamp;

use crate::id::{StageId, TransactionId};
use crate::item::TransactionItem;
use crate::reason::Refusal;
use crate::state::Install;

/// What evaluation of a part's items has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvaluatedPart {
    /// What to change at the commit, opaque here; at most [`crate::limits::EFFECT_BYTES_MAX`] bytes.
    pub effect: Bytes,
    /// What the items return, opaque here.
    pub result: Bytes,
}

/// What the session table says about a transaction that its coordinator neither runs nor has decided without being finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKnowledge {
    /// It has an outcome, committed in the log, or it can never begin: its sequence is below the lowest unanswered one,
    /// or its session has expired.
    Over,
    /// Its request may still come.
    Unknown,
}

/// The partition, as its primary sees it.
pub trait PartitionHost {
    /// A timestamp above everything at which anything in this partition was ever read, written or proposed, by this
    /// primary or any before it.
    fn propose(&mut self) -> Timestamp;

    /// From now on every proposal is above `to`.
    fn raise(&mut self, to: Timestamp);

    /// Whether a timestamp is too far ahead of this clock to be followed.
    fn is_ahead(&self, timestamp: Timestamp) -> bool;

    /// The newest version of what an item names, over what is appended too; [`Timestamp::ZERO`] if there is none.
    fn version(&self, item: &TransactionItem) -> Timestamp;

    /// Evaluates the items, over what is appended too, one after the other. Nothing else can change what they name until
    /// the transaction has ended, but for transforms beside transforms of the same kind, which are to be evaluated when
    /// they are installed. Errors: a declared condition that does not hold, items of another partition, limits.
    fn evaluate(&self, items: &[TransactionItem]) -> Result<EvaluatedPart, Refusal>;

    /// A committed entry changes records: they change now, at this version. A call and not an effect: whoever is next in
    /// the queue is evaluated in the same step, over what this leaves. Replicas get the same from [`ParticipantState::apply`].
    ///
    /// [`ParticipantState::apply`]: crate::ParticipantState::apply
    fn install(&mut self, install: &Install);

    /// What was staged, if it is there and committed.
    fn staged(&self, id: &StageId) -> Option<Bytes>;

    /// What the session table, as of the commit index, says of a transaction.
    fn known(&self, id: &TransactionId) -> SessionKnowledge;
}
