//! One operation of a transaction.

use crate::invalid_transaction::InvalidTransaction;
use bytes::Bytes;
use zerohop_transaction::{Access, StageId};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::limits::KEY_BYTES_MAX;
use zerohop_wire::messages::{Query, RecordOperation, RecordRead};
use zerohop_wire::pack;

use crate::request_kind::unpack;

/// One operation of a transaction, or of a read of several records.
#[derive(Clone, Debug)]
pub struct CompositeItem {
    pub(crate) keyspace: KeyspaceId,
    /// The operation, encoded as a batch item.
    pub(crate) packed: Bytes,
    pub(crate) access: Access,
    pub(crate) seen: Option<Timestamp>,
    /// The id and length of its staged bytes, if they are staged; then `packed` is only a read of its key.
    pub(crate) ahead: Option<(StageId, usize)>,
}

impl CompositeItem {
    /// Creates an item from an operation, and the version of its record that it depends on, if any: zero means "no record". If the record has
    /// another version at the commit, the transaction aborts.
    ///
    /// # Errors
    /// The operation exceeds a limit of the protocol, or is a wait.
    pub fn new(
        keyspace: KeyspaceId,
        operation: &RecordOperation<'_>,
        seen: Option<Timestamp>,
    ) -> Result<Self, InvalidTransaction> {
        if matches!(operation, RecordOperation::Read(read) if !read.query.is_in_transactions()) {
            return Err(InvalidTransaction::Waits);
        }
        if operation.key().is_empty() {
            let failure = Failure::KeyTooLong { length: 0, limit: KEY_BYTES_MAX as u32 };
            return Err(InvalidTransaction::Operation { failure });
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

    /// The encoded operation: equal operations have equal bytes.
    #[must_use]
    pub fn packed(&self) -> &Bytes {
        &self.packed
    }

    /// Adds a read dependency on this version of its record, as in [`CompositeItem::new`].
    pub fn add_read_dependency(&mut self, seen: Timestamp) {
        self.seen = Some(seen);
    }

    /// Records that the operation is staged under this id, by [`SessionRequest::stage`]: the item drops its bytes. Its operation is then a read of
    /// its key.
    ///
    /// [`SessionRequest::stage`]: crate::SessionRequest::stage
    ///
    /// # Errors
    /// None is expected, because the key's length was checked before.
    pub fn is_staged(&mut self, id: StageId) -> Result<(), InvalidTransaction> {
        let mut packed = Vec::new();
        let read = RecordOperation::Read(RecordRead { key: self.key(), query: Query::Inspect });
        pack(&read, &mut packed).map_err(|failure| InvalidTransaction::Operation { failure })?;
        self.ahead = Some((id, self.packed.len()));
        self.packed = packed.into();
        Ok(())
    }

    /// Whether its bytes are staged at a server.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Length of its operation in bytes, staged or not.
    #[must_use]
    pub fn length(&self) -> usize {
        self.ahead.map_or(self.packed.len(), |(_, length)| length)
    }

    /// Whether other transactions may do such an operation on the record before either is decided. A read dependency must then be checked by an
    /// item of its own.
    #[must_use]
    pub fn commutes(&self) -> bool {
        matches!(self.access, Access::Transform(_))
    }

    pub(crate) fn is_read(&self) -> bool {
        self.access == Access::Read
    }

    /// Approximate number of bytes that the items occupy.
    pub(crate) fn bytes_of(items: &[Self]) -> usize {
        const FIELDS_BYTES: usize = 64;
        items.iter().map(|item| item.packed.len() + FIELDS_BYTES).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_key_is_refused_in_words() {
        let read = |key| RecordOperation::Read(RecordRead { key, query: Query::Lookup });
        assert!(CompositeItem::new(KeyspaceId(1), &read(b"k"), None).is_ok());
        let refused = CompositeItem::new(KeyspaceId(1), &read(b""), None).unwrap_err();
        assert!(refused.to_string().contains("the key is empty: a key has 1 to 65536 bytes"), "{refused}");
    }
}
