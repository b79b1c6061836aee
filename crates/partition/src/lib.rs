//! The state machine of one partition: operations on records, sessions, intents, snapshots, its log and its replies.
//!
//! ```text
//!   Request ──> session table: seen before? ──> the first outcome
//!                   │ no
//!               evaluate over engine + overlay ──> entry (change and outcome together) ──> log writer ──> engine.append
//!                                                                                           │
//!   one member: Flushed; several: all in-sync replicas have it ─────> commit index moves <──┘
//!                                                                           │
//!               overlay entry removed, state applied, waits checked, pending replies sent
//! ```
//!
//! All code of this crate is pure: an event, a time and a view of the map go in, [`PartitionEffect`]s come out. No code here reads a
//! clock. All I/O goes through the engine that the caller passes in. `zerohop-replication` makes a partition a member of its replica
//! group: it decides whether the primary may answer, sends the log to the other members and moves the commit index. `zerohop-shard`
//! runs many partitions on one thread. The type `LogWriter` of this crate only numbers and appends the entries of one log.
//!
//! `docs/protocols/partition.md` describes states, events, effects and the rules of retries. `docs/protocols/replication.md`
//! describes the rules of replica groups. ARCHITECTURE.md, "An append, three replicas", follows a request. Replication is
//! primary-backup in the manner of PacificA (Lin and others, 2008). The session table follows RIFL (Lee and others, 2015).

mod all_records;
mod atomic_batch;
mod batch;
mod clock;
pub mod digest;
mod entry_metadata;
mod event;
mod failure;
mod hash_range;
mod history;
mod intents;
mod last_record_read;
pub mod limits;
mod log_writer;
mod map_view;
mod operations;
mod outcome;
mod overlay;
mod own_records;
mod partition;
mod pending_replies;
pub mod planted;
mod program;
mod reply;
mod session_fields;
mod snapshots;
pub mod state;
#[cfg(test)]
mod testing;
mod timers;
mod undecided_replies;
mod update_locks;
mod view;
mod waits;
mod watch_positions;
mod write_buffer;

pub use atomic_batch::{RecordInfo, Unit};
pub use entry_metadata::{FILLER, is_filler, transaction_entry};
pub use event::{
    ClockSample, FlushNeed, PartitionEffect, PartitionEffects, PartitionEvent, RecordRequest, StepContext,
    Token,
};
pub use hash_range::HashRange;
pub use map_view::MapView;
pub use partition::changes::InheritedHistory;
pub use partition::open::{MemberOptions, PartitionOpenError, RestoreReport};
pub use partition::{Partition, PartitionFigures};
pub use program::{Program, ProgramResult, SnapshotOpening};
pub use snapshots::answer_snapshot;
pub use snapshots::view::PastView;
pub use undecided_replies::InheritedReplies;
pub use watch_positions::{KeySelection, PartitionWatch, WatchLag};
