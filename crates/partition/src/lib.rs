//! The state machine of a partition, its replication, and the instance that runs many partitions on one thread.
//!
//! ```text
//!   instance   one thread's partitions: requests to partitions, one flush a batch, map changes, splits
//!      ├── table ───────────────────────────────┐  a group with one member
//!      └── groups ──> replica ──> gate ─────────┤  a group with several: leases, log streams, acknowledgements
//!                                               ▼
//!   Request ──> session table: seen before? ──> the first outcome
//!                   │ no
//!               evaluate over engine + overlay ──> entry (change and outcome together) ──> group ──> engine.append
//!                                                                                           │
//!   one member: Flushed; several: all in-sync replicas have it ─────> commit index moves <──┘
//!                                                                           │
//!               overlay entry removed, state applied, waits checked, pending answers sent
//! ```
//!
//! All of it is pure: an event and a time go in, [`PartitionEffects`] come out. No code here reads a clock, and all I/O goes through the
//! engine that the caller passes in. [`instance`] routes a request to its partition. [`replica`] is a partition as a member of a
//! replica group: it decides whether the primary may answer, sends the log to the other members and moves the commit index. The
//! type `Group` of this crate only numbers and appends the entries of one log.
//!
//! `docs/protocols/partition.md` has states, events, effects and the rules of retries, `docs/protocols/replication.md` the rules of
//! replica groups, and ARCHITECTURE.md, "An append, three replicas", the way of a request. Replication is primary-backup in the
//! manner of PacificA (Lin and others, 2008), the session table follows RIFL (Lee and others, 2015).

mod atomic_batch;
mod batch;
mod clock;
mod digest;
mod entry_metadata;
mod event;
mod failure;
mod hash_range;
pub mod instance;
pub mod limits;
mod log_writer;
mod operations;
mod outcome;
mod overlay;
mod partition;
mod pending_replies;
pub mod planted;
mod program;
pub mod replica;
mod snapshots;
pub mod state;
#[cfg(test)]
mod testing;
mod timers;
mod view;
mod waits;
mod write_buffer;

pub use atomic_batch::{RecordInfo, Unit};
pub use entry_metadata::transaction_entry;
pub use event::{Now, PartitionEffects, PartitionEvent, RecordRequest, Token};
pub use hash_range::Slice;
pub use partition::open::{MemberOptions, PartitionOpenError, RestoreReport};
pub use partition::{Partition, PartitionFigures};
pub use program::{Program, ProgramResult, SnapshotOpening, answer_snapshot};
pub use snapshots::view::PastView;
