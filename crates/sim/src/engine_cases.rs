//! Cases of engines in clusters: the crash points that they have reached, the crashes at these, and the restarts that
//! were checked. Also deaths in recoveries, and cases of maps, clocks and batches.

use zerohop_engine::disk::crash_point::CrashPoint;

/// Restarts after the end of a run, as `cluster/restarts.rs` counts them.
pub const RESTARTS: [&str; 4] = [
    "restarts: partitions compared",
    "restarts: shuts down cleanly",
    "restarts: maintenance in between",
    "restarts: crashes during that maintenance",
];

/// Deaths of members while their group recovers, as `cluster/double_deaths.rs` counts them.
pub const DEATHS: [&str; 2] = [
    "recoveries: members that die again after their report",
    "recoveries: members that die again before their report",
];

/// Cases of maps, clocks and batches.
pub const MAPS: [&str; 5] = [
    "record batches sent",
    "batches that are sent in part",
    "maps: nodes that learn of a group's change and its split at once",
    "maps: clients that learn of a group's change and its split at once",
    "clocks that advance in steps",
];

/// How often engines have reached a point.
const REACHED: [&str; CrashPoint::ALL.len()] = [
    "engine: checkpoints begun",
    "engine: pages of checkpoints written",
    "engine: checkpoints written",
    "engine: checkpoints named",
    "engine: checkpoints installed",
    "engine: old checkpoints removed",
    "engine: segments sealed",
    "engine: compactions begun",
    "engine: steps of compactions",
    "engine: copies of segments written",
    "engine: copies of segments named",
    "engine: segments swapped",
    "engine: locations redirected",
    "engine: segments removed",
    "engine: journal files begun",
    "engine: journal files removed",
    "engine: recoveries begun",
    "engine: checkpoints loaded",
    "engine: logs read",
    "engine: journals read",
    "engine: segments copied for a split",
    "engine: splits decided",
    "engine: files of dropped partitions removed",
    "engine: snapshot installs begun",
    "engine: runs installed",
    "engine: snapshot installs ended",
];

/// How often a process has ended at a point.
const CRASHES: [&str; CrashPoint::ALL.len()] = [
    "engine: crashes as a checkpoint begins",
    "engine: crashes as a checkpoint's page is written",
    "engine: crashes as a checkpoint is synced",
    "engine: crashes as a checkpoint is named",
    "engine: crashes as a checkpoint is installed",
    "engine: crashes as an old checkpoint is removed",
    "engine: crashes as a segment is sealed",
    "engine: crashes as a compaction begins",
    "engine: crashes as a segment is copied",
    "engine: crashes as a copied segment is synced",
    "engine: crashes as a copied segment is named",
    "engine: crashes as a segment is swapped",
    "engine: crashes as locations are redirected",
    "engine: crashes as a segment is removed",
    "engine: crashes as a journal file begins",
    "engine: crashes as a journal file is removed",
    "engine: crashes as a recovery begins",
    "engine: crashes as a recovery has its checkpoint",
    "engine: crashes as a recovery has its log",
    "engine: crashes as a recovery has its journal",
    "engine: crashes as a split copies a segment",
    "engine: crashes as a split is decided",
    "engine: crashes as a dropped partition's file is removed",
    "engine: crashes as a snapshot install begins",
    "engine: crashes as a snapshot install adds a run",
    "engine: crashes as a snapshot install ends",
];

/// The name of the count of times that engines have reached a point.
#[must_use]
pub fn reached(point: CrashPoint) -> &'static str {
    REACHED[point as usize]
}

/// The name of the count of processes that have ended at a point.
#[must_use]
pub fn crashed(point: CrashPoint) -> &'static str {
    CRASHES[point as usize]
}

/// The names of all counts.
pub fn all() -> impl Iterator<Item = &'static str> {
    REACHED.into_iter().chain(CRASHES).chain(RESTARTS).chain(DEATHS).chain(MAPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_has_its_own_name() {
        let names: std::collections::BTreeSet<&str> = all().collect();
        assert_eq!(names.len(), 2 * CrashPoint::ALL.len() + RESTARTS.len() + DEATHS.len() + MAPS.len());
        for (at, point) in CrashPoint::ALL.into_iter().enumerate() {
            assert_eq!(point as usize, at, "the tables are in the order of the points");
        }
    }
}
