//! The intents of transactions, as an atomic batch sees them.

use zerohop_transaction::Transactions;

use crate::hash_range::HashRange;

/// The intents that an atomic batch checks before it reads or changes a record.
#[derive(Clone)]
pub(crate) struct Intents<'i> {
    transactions: &'i Transactions,
    hash_range: HashRange,
}

impl<'i> Intents<'i> {
    /// `None`: there are none.
    pub(crate) fn of(transactions: &'i Transactions, hash_range: Option<HashRange>) -> Option<Intents<'i>> {
        if transactions.is_free() {
            return None;
        }
        Some(Intents { transactions, hash_range: hash_range? })
    }

    /// Whether a transaction is about to change a record.
    pub(crate) fn has_intent(&self, key: &[u8]) -> bool {
        self.transactions.has_change_pending(self.hash_range.lock_key(key))
    }

    /// Whether a transaction is about to change any record.
    pub(crate) fn has_any_intent(&self) -> bool {
        self.transactions.has_changes_pending()
    }

    /// Whether a change of a record must wait.
    pub(crate) fn are_in_the_way(&self, key: &[u8]) -> bool {
        !self.transactions.may_write(self.hash_range.lock_key(key))
    }
}
