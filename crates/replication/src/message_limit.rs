//! How many entries a message of replication carries. A simulation lowers this, so that an atomic batch is longer than one message.

use super::limits::MESSAGE_ENTRIES;

#[cfg(debug_assertions)]
thread_local! {
    static ENTRIES: std::cell::Cell<usize> = const { std::cell::Cell::new(MESSAGE_ENTRIES) };
}

/// Sets the number of entries that a message carries at most, in this thread; none: as many as in production.
#[cfg(debug_assertions)]
pub fn set_message_entries(most: Option<usize>) {
    ENTRIES.set(most.unwrap_or(MESSAGE_ENTRIES));
}

/// The number of entries that a message carries at most.
#[cfg(debug_assertions)]
pub(super) fn message_entries() -> usize {
    ENTRIES.get()
}

/// The number of entries that a message carries at most.
#[cfg(not(debug_assertions))]
pub(super) const fn message_entries() -> usize {
    MESSAGE_ENTRIES
}
