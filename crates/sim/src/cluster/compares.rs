//! The clients' comparisons of copies, while faults occur. Now and then a client has the members of all partitions of a
//! keyspace compare all contents, hash range by hash range. It uses the procedure that `zerohop keyspace verify` runs.
//! The members have the same contents whatever the primary and its changes, so no comparison may report a difference.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zerohop_base::random::Random;
use zerohop_session::ComparedRange;
use zerohop_session::procedures::{ClusterHandle, ProcedureSettings};
use zerohop_wire::ids::KeyspaceId;

use super::SimulatedCluster;
use super::watchers::RunningWatches;
use crate::streams::Draw;

const MS: u64 = 1_000;

/// One of so many calls starts one.
const OF_CALLS: u64 = 150;

/// The highest number of rounds of a comparison.
const ROUNDS_MAX: u32 = 10_000;

/// The comparisons of all clients that have not ended.
#[derive(Debug)]
pub(super) struct Compares {
    random: Random,
    open: BTreeMap<usize, RunningComparison>,
    next: usize,
    reports: ComparisonReports,
    /// The watches of the same clients.
    pub(super) watches: RunningWatches,
}

#[derive(Clone, Copy, Debug)]
struct RunningComparison {
    client: usize,
    keyspace: KeyspaceId,
    /// The lowest number of copies in any hash range.
    copies: u32,
}

/// Reports of the procedures, in order, each with the number of its comparison.
type ComparisonReports = Arc<Mutex<VecDeque<(usize, ComparisonReport)>>>;

#[derive(Debug)]
enum ComparisonReport {
    Compared(ComparedRange),
    Ends {
        is_complete: bool,
    },
    /// It has had too many rounds.
    NeverEnds,
}

async fn run_comparison(handle: ClusterHandle, name: String, report: impl Fn(ComparisonReport)) {
    let Ok(keyspace) = handle.keyspace(&name).await else {
        return report(ComparisonReport::Ends { is_complete: false });
    };
    let mut comparison = keyspace.compare();
    for _ in 0..ROUNDS_MAX {
        match comparison.next_ranges().await {
            Ok(Some(ranges)) => {
                ranges.into_iter().for_each(|range| report(ComparisonReport::Compared(range)))
            }
            Ok(None) => return report(ComparisonReport::Ends { is_complete: true }),
            Err(_) => return report(ComparisonReport::Ends { is_complete: false }),
        }
    }
    report(ComparisonReport::NeverEnds);
}

impl Compares {
    pub(super) fn new(random: Random) -> Compares {
        Compares {
            random,
            open: BTreeMap::new(),
            next: 0,
            reports: ComparisonReports::default(),
            watches: RunningWatches::default(),
        }
    }

    /// A client dies.
    pub(super) fn drop_client(&mut self, client: usize) {
        self.open.retain(|_, one| one.client != client);
    }
}

impl SimulatedCluster {
    /// A client may start a comparison of a keyspace, beside its other work.
    pub(super) fn begins_compare(&mut self, client: usize) {
        let now = self.now();
        let random = &mut self.compares.random;
        if !random.chance(1, OF_CALLS) {
            return;
        }
        let live: Vec<KeyspaceId> = self.watch.live(now).collect();
        if live.is_empty() {
            return;
        }
        let keyspace = *random.pick(&live);
        let deadline = Duration::from_micros(random.between(500 * MS, 8_000 * MS));
        let Some(known) = self.watch.map.keyspace(keyspace) else { return };
        let name = known.config().name.as_str().to_owned();
        let number = self.compares.next;
        self.compares.next += 1;
        self.trace.record(now, format_args!("c{client} has {keyspace} compared, #{number}"));
        self.compares.open.insert(number, RunningComparison { client, keyspace, copies: u32::MAX });
        let reports = Arc::clone(&self.compares.reports);
        let report = move |what| {
            reports.lock().unwrap_or_else(PoisonError::into_inner).push_back((number, what));
        };
        let procedures = &mut self.clients[client].procedures;
        let handle = procedures.handle(ProcedureSettings::new(deadline));
        procedures.start(run_comparison(handle, name, report));
        let soon = self.streams.schedule.below(20);
        self.schedule_client(client, now.after_us(soon));
    }

    /// Handles what the comparisons have reported in this turn of a client.
    pub(super) fn handle_comparison_reports(&mut self) {
        loop {
            let report = self.compares.reports.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((number, report)) = report else { return };
            let Some(one) = self.compares.open.get_mut(&number) else { continue };
            let RunningComparison { keyspace, copies, .. } = *one;
            match report {
                ComparisonReport::Compared(range) => {
                    one.copies = copies.min(range.copies);
                    if !range.differing.is_empty() {
                        let (partition, differing) = (range.partition, &range.differing);
                        let what = format!("{keyspace}/{partition}: {differing:?} are reported to differ");
                        self.record_violation("I6", what);
                    }
                }
                ComparisonReport::Ends { is_complete } => {
                    self.compares.open.remove(&number);
                    self.coverage.blob(match (is_complete, copies) {
                        (false, _) => "comparisons that failed",
                        (true, 0 | 1) => "comparisons of one copy",
                        (true, _) => "comparisons of several copies",
                    });
                }
                ComparisonReport::NeverEnds => {
                    self.compares.open.remove(&number);
                    self.record_violation("progress", format!("a comparison of {keyspace} does not end"));
                }
            }
        }
    }
}
