//! Operations on records: the vocabulary that all crates share, and the table of operations.
//!
//! ```text
//!   ids, limits, error, kind      numbers of the protocol: what a frame, a log entry and an answer name
//!   record, transform, blob       types of records and of numbers in them
//!   read, write, scan, changes, chunk_list, compare     requests on records: their fields, and their bytes in a frame
//!   operations                    the table of operations on a record: one file each
//!   state, answer                  what an operation sees of a record, and what it answers
//!   fields, elements, numbered    fixed fields, sequences, numbered enumerations: the means of all codecs
//! ```
//!
//! It opens no socket, reads no clock and has no state. `docs/protocols/wire.md` specifies every byte.

pub mod answer;
pub mod blob;
pub mod blob_change;
mod blob_stamp;
pub mod changes;
pub mod chunk_list;
pub mod compare;
pub mod elements;
pub mod error;
pub mod fields;
pub mod ids;
pub mod kind;
pub mod limits;
pub mod memory;
mod numbered;
mod operation_body;
pub mod operations;
pub mod plurals;
pub mod read;
pub mod record;
mod record_type;
pub mod scan;
pub mod state;
pub mod transform;
pub mod write;

pub use answer::{OperationAnswer, Outcome, Shape};
pub use blob_change::BlobChange;
pub use changes::{AFTER_NOW, CHANGE_HEAD_BYTES, ChangeCause, CommittedChange, ReadChanges};
pub use chunk_list::ChunkList;
pub use compare::{Compare, RangeComparison};
pub use elements::{Element, Elements, pack};
pub use error::{AbortReason, Advice, AuthFault, BadRequestReason, ErrorCode, Failure, Permission};
pub use kind::FrameKind;
pub use operations::{
    Append, CompareSwap, Confirm, CountBits, Expire, Extend, GetBit, Increment, Insert, Inspect, Lookup,
    LookupRange, Query, ReadChunk, Remove, SetBit, Take, Trim, UpdateLock, Wait, WaitUntil, WriteChange,
};
pub use read::RecordRead;
pub use record::{Condition, Expiry, Range, RecordType};
pub use scan::{SCANNED_HEAD_BYTES, Scan, ScanRange, ScannedKey};
pub use transform::{Number, NumberType, Operator, ReturnedNumber, Transform};
pub use write::RecordWrite;
