//! The table of operations on a record: one file each.
//!
//! A file declares the operation's number, name, fields and their bytes in a frame, its needs and its errors. It
//! implements what the operation does with a record, or reads of it. Everything else follows the table: frames,
//! permissions, locks, the partition, its snapshots, the overlay of a transaction, and the embedded store.

mod append;
mod compare_swap;
mod confirm;
mod count_bits;
mod expire;
mod extend;
mod get_bit;
mod increment;
mod insert;
mod inspect;
mod lookup;
mod lookup_range;
mod read_chunk;
mod reads;
mod remove;
mod row;
mod set_bit;
mod table;
mod take;
mod transform;
mod trim;
mod update_lock;
mod wait;

pub use append::{Append, append_values};
pub use compare_swap::CompareSwap;
pub use confirm::Confirm;
pub use count_bits::CountBits;
pub use expire::Expire;
pub use extend::Extend;
pub use get_bit::GetBit;
pub use increment::Increment;
pub use insert::Insert;
pub use inspect::Inspect;
pub use lookup::Lookup;
pub use lookup_range::LookupRange;
pub use read_chunk::ReadChunk;
pub use reads::Query;
pub use remove::Remove;
pub use row::{LogKind, OperationFacts, ReadOperation, WriteOperation};
pub use set_bit::{SetBit, check_bit};
pub use table::WriteChange;
pub use take::Take;
pub use trim::Trim;
pub use update_lock::UpdateLock;
pub use wait::{Wait, WaitUntil};

pub use crate::operation_body::{OperationBody, ReadHead, WriteHead};
