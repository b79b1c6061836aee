//! Programs of the layers above: what clients of a simulated cluster run in place of the simulator's own operations.
//!
//! ```text
//!   ClientPrograms::begin ──> a task of each life of a client ──> procedures over ClusterHandle ──> the client's session
//!                 conclude ──> a last task, after all faults and all other tasks
//! ```
//!
//! The cluster has two keyspaces for them, which lose nothing: one is ordered, and the other has hashed keys.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zerohop_base::random::Random;
pub use zerohop_session::procedures::BoxFuture;
use zerohop_session::procedures::ClusterHandle;

use crate::workload::transactional::KEYSPACES;

/// The ordered keyspace of programs.
pub const ORDERED_KEYSPACE: &str = KEYSPACES[0];

/// Their keyspace of hashed keys.
pub const HASHED_KEYSPACE: &str = KEYSPACES[1];

/// The regions of the ordered keyspace.
#[derive(Clone, Copy, Debug)]
pub struct ProgramRegions {
    /// Where regions begin when it is created; one of these is drawn.
    pub at_creation: &'static [&'static [&'static [u8]]],
    /// Where regions may be split.
    pub splits: &'static [&'static [u8]],
}

/// One life of a client.
#[derive(Debug)]
pub struct ProgramClient {
    /// Its number, and how many lives it had before.
    pub number: usize,
    /// See `number`.
    pub life: u32,
    /// The cluster.
    pub cluster: ClusterHandle,
    /// Draws of its own.
    pub random: Random,
    pub(crate) stop: Arc<AtomicBool>,
}

impl ProgramClient {
    /// Whether the program is to end, because the run does.
    #[must_use]
    pub fn must_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// See the module.
pub trait ClientPrograms: fmt::Debug {
    /// The regions of the ordered keyspace.
    fn regions(&self) -> ProgramRegions;

    /// The task of a client that begins. It is dropped, at any of its steps, when the client dies.
    fn begin(&mut self, client: ProgramClient) -> BoxFuture;

    /// The last task. The cluster is whole by then.
    fn conclude(&mut self, client: ProgramClient) -> BoxFuture;

    /// What was wrong in a run that has ended.
    fn violations(&mut self) -> Vec<String>;
}
