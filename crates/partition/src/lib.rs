//! One partition: every operation on its records, evaluated by the primary over an engine.
//!
//! ```text
//!   Request ──> session table: seen before? ──> the first outcome
//!                   │ no
//!               evaluate over engine + overlay ──> entry (change and outcome together) ──> group ──> engine.append
//!                                                                                           │
//!   Flushed ────────────────────────────────────────────────────────> commit index moves <──┘
//!                                                                           │
//!               overlay entry gone, state applied, waits looked at, held answers sent
//! ```
//!
//! A pure state machine: an event and a time go in, [`Effects`] come out; it reads no clock and does no I/O but through
//! the engine it is handed. The group is of one for now, but entries are numbered (epoch, index) and committed through
//! it, so that replication changes the group and nothing here. `docs/protocols/partition.md` tells states, events,
//! effects and the rules of retries. It follows sections 4 and 5 of the design; the replication to come is primary-backup
//! in the manner of PacificA (Lin and others, 2008), the session table in that of RIFL (Lee and others, 2015).

mod batch;
mod clock;
mod digest;
mod event;
mod failure;
mod group;
mod held;
pub mod instance;
pub mod limits;
mod note;
mod operations;
mod outcome;
mod overlay;
mod partition;
pub mod planted;
pub mod replica;
mod slice;
mod snapshots;
mod staged;
pub mod state;
#[cfg(test)]
mod testing;
mod timers;
mod unit;
mod view;
mod waits;

pub use event::{Effects, Event, Now, Request, Token};
pub use note::transaction_entry;
pub use partition::open::{OpenError, Options, Restored};
pub use partition::{Partition, Stats};
pub use slice::Slice;
pub use unit::{Inspected, Program, Ran, Unit};
