//! An invariant that a test has broken: `ZEROHOP_TEST_BREAK` names a file with the numbers of a keyspace and a partition. Once the
//! file exists, the primary of this partition breaks an invariant, if it is here. Builds without debug assertions, as users have
//! them, do not know the variable.

use std::path::{Path, PathBuf};

use tracing::warn;
use zerohop_engine::disk::Disk;
use zerohop_shard::Instance;
use zerohop_wire::ids::{KeyspaceId, PartitionId};

/// The environment variable.
const VARIABLE: &str = "ZEROHOP_TEST_BREAK";

/// Interval at which the file is read.
const CHECK_INTERVAL_MS: u64 = 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct TestBreak {
    /// `None`: no test asks for it, or it is done.
    file: Option<PathBuf>,
    next_look_ms: u64,
}

impl TestBreak {
    pub(super) fn from_environment() -> TestBreak {
        let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from);
        TestBreak { file, next_look_ms: 0 }
    }

    /// Breaks the invariant if the file asks for it.
    pub(super) fn check_file<D: Disk>(&mut self, now_ms: u64, instance: &mut Instance<D>) {
        let Some(file) = self.file.as_deref().filter(|_| now_ms >= self.next_look_ms) else { return };
        self.next_look_ms = now_ms + CHECK_INTERVAL_MS;
        let Some((keyspace, partition)) = read(file) else { return };
        if instance.break_invariant(keyspace, partition) {
            warn!(keyspace = keyspace.0, partition = partition.0, "{VARIABLE}: A TEST BREAKS THIS PARTITION");
            self.file = None;
        }
    }
}

/// The partition that the file names; none while there is no such file.
fn read(file: &Path) -> Option<(KeyspaceId, PartitionId)> {
    let text = std::fs::read_to_string(file).ok()?;
    let (keyspace, partition) = text.trim().split_once(' ')?;
    Some((KeyspaceId(keyspace.parse().ok()?), PartitionId(partition.parse().ok()?)))
}
