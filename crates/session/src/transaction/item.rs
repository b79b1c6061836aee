//! One operation of a transaction.

use bytes::Bytes;
use zerohop_transaction::{Access, StageId};
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::messages::{Query, RecordOperation, RecordRead};
use zerohop_wire::pack;

use super::unfit::InvalidTransaction;
use crate::request::unpack;

/// One operation of a transaction, or of a read of several records.
#[derive(Clone, Debug)]
pub struct CompositeItem {
    pub(crate) keyspace: KeyspaceId,
    /// As an item of a batch.
    pub(crate) packed: Bytes,
    pub(crate) access: Access,
    pub(crate) seen: Option<Timestamp>,
    /// Under which name its bytes are staged, and how many; then `packed` is only a read of its key.
    pub(crate) ahead: Option<(StageId, usize)>,
}

impl CompositeItem {
    /// An operation, and the version of its record on which it rests, if it rests on one: zero stands for "no record".
    /// If the record has another by then, nothing of the transaction is done.
    ///
    /// # Errors
    /// It passes a bound of the protocol, or waits for something.
    pub fn new(
        keyspace: KeyspaceId,
        operation: &RecordOperation<'_>,
        seen: Option<Timestamp>,
    ) -> Result<Self, InvalidTransaction> {
        if let RecordOperation::Read(RecordRead {
            query: Query::Wait { .. } | Query::Confirm { .. }, ..
        }) = operation
        {
            return Err(InvalidTransaction::Waits);
        }
        let mut packed = Vec::new();
        pack(operation, &mut packed).map_err(|failure| InvalidTransaction::Operation { failure })?;
        let limit = zerohop_transaction::limits::STAGED_PIECE_BYTES_MAX;
        if packed.len() > limit {
            return Err(InvalidTransaction::Long { length: packed.len(), limit });
        }
        Ok(Self { keyspace, packed: packed.into(), access: Access::of(operation), seen, ahead: None })
    }

    /// The key of its record.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        unpack(&self.packed).key()
    }

    /// The keyspace of its record.
    #[must_use]
    pub fn keyspace(&self) -> KeyspaceId {
        self.keyspace
    }

    /// The operation.
    #[must_use]
    pub fn operation(&self) -> RecordOperation<'_> {
        unpack(&self.packed)
    }

    /// The operation's bytes: those of another are the same if it is.
    #[must_use]
    pub fn packed(&self) -> &Bytes {
        &self.packed
    }

    /// Has it rest on this version of its record, as in [`CompositeItem::new`].
    pub fn rest_on(&mut self, seen: Timestamp) {
        self.seen = Some(seen);
    }

    /// Its bytes are staged under this name, by [`SessionRequest::stage`]: they need not be held any more. Its operation is then a read
    /// of its key.
    ///
    /// [`SessionRequest::stage`]: crate::SessionRequest::stage
    ///
    /// # Errors
    /// None is known: its key was within bounds before.
    pub fn is_staged(&mut self, id: StageId) -> Result<(), InvalidTransaction> {
        let mut packed = Vec::new();
        let read = RecordOperation::Read(RecordRead { key: self.key(), query: Query::Inspect });
        pack(&read, &mut packed).map_err(|failure| InvalidTransaction::Operation { failure })?;
        self.ahead = Some((id, self.packed.len()));
        self.packed = packed.into();
        Ok(())
    }

    /// Whether its bytes are with a server, and not here.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Bytes of its operation, wherever they are.
    #[must_use]
    pub fn length(&self) -> usize {
        self.ahead.map_or(self.packed.len(), |(_, length)| length)
    }

    /// Whether others may do the like beside it, before either is decided: what it rests on must then be checked by itself.
    #[must_use]
    pub fn commutes(&self) -> bool {
        matches!(self.access, Access::Transform(_))
    }

    pub(crate) fn is_read(&self) -> bool {
        self.access == Access::Read
    }

    /// Bytes that items hold, about.
    pub(crate) fn bytes_of(items: &[Self]) -> usize {
        const FIELDS_BYTES: usize = 64;
        items.iter().map(|item| item.packed.len() + FIELDS_BYTES).sum()
    }
}
