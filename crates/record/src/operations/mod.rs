//! The table of operations that change a record: one file each.
//!
//! A file declares the operation's number, name, fields and their bytes in a frame, its needs and its errors, and implements what
//! the operation does with a record. Everything else follows the table: frames, permissions, locks, the partition, the overlay of a
//! transaction, and the embedded store.

mod append;
mod compare_swap;
mod expire;
mod extend;
mod increment;
mod insert;
mod remove;
mod row;
mod set_bit;
mod table;
mod take;
mod transform;
mod trim;

pub use append::{Append, append_values};
pub use compare_swap::CompareSwap;
pub use expire::Expire;
pub use extend::Extend;
pub use increment::Increment;
pub use insert::Insert;
pub use remove::Remove;
pub use row::{Facts, LogKind, WriteOperation};
pub use set_bit::{SetBit, check_bit};
pub use table::WriteChange;
pub use take::Take;
pub use trim::Trim;

pub use crate::write_body::{WriteBody, WriteHead};
