//! Crashes at points in the work of an engine: in the middle of a checkpoint, a compaction, a recovery, a split, a drop, a
//! snapshot install, or as a journal file changes. Power cuts at random times come between two such steps most of the time.
//!
//! ```text
//!   fault window ──Aim──> one node, or for rare points all: its disk cuts the power at the nth of some points
//!   end of a process ───> sometimes the same for a point of the next start's recovery
//!   the power is off ───> the process ends: by power loss, or killed, so that what was issued survives
//! ```

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_engine::disk::crash_point::CrashPoint;

use super::node_end::NodeEnd;
use super::{ClusterPhase, SimulatedCluster};
use crate::engine_cases;
use crate::kinds::FaultKind;
use crate::streams::Draw;

/// Aims in each fault window.
const AIMS_PER_WINDOW: u64 = 4;

/// One in so many ends of a process is followed by a crash during its recovery.
const RECOVERIES_OF: u64 = 4;

/// Calls of the disk that may still succeed at a point, at most.
const CALLS_LEFT_MAX: u64 = 6;

/// The draws of aims are in streams of their own from here on.
const AIM_FORK: u64 = 0xA13D << 32;

/// Points of one kind of work, how often one of them may be passed before the crash, and whether the work is so rare that
/// all nodes wait for it.
struct AimedWork {
    points: &'static [CrashPoint],
    passed_max: u64,
    is_rare: bool,
}

/// The points of a split, which are aimed at when one is decided.
const SPLIT: [CrashPoint; 2] = [CrashPoint::SplitCopied, CrashPoint::SplitDecided];

/// Checkpoints, compaction, the journal, drops, snapshot installs.
const WORK: [AimedWork; 5] = [
    AimedWork { points: &CrashPoint::OF_CHECKPOINTS, passed_max: 4, is_rare: false },
    AimedWork { points: &CrashPoint::OF_COMPACTION, passed_max: 4, is_rare: false },
    AimedWork {
        points: &[CrashPoint::JournalBegun, CrashPoint::JournalRemoved],
        passed_max: 2,
        is_rare: false,
    },
    AimedWork { points: &[CrashPoint::PartitionFileRemoved], passed_max: 4, is_rare: true },
    AimedWork {
        points: &[CrashPoint::InstallBegun, CrashPoint::InstallRun, CrashPoint::InstallEnded],
        passed_max: 2,
        is_rare: true,
    },
];

/// The aims of a run; see the module.
pub(super) struct AimedCrashes<'w> {
    pub(super) world: &'w mut SimulatedCluster,
}

impl AimedCrashes<'_> {
    /// When crashes are aimed at points.
    pub(super) fn times(&mut self) -> Vec<Time> {
        if !self.world.scenario.has(FaultKind::CrashPoints) {
            return Vec::new();
        }
        let mut draw = self.draw();
        let mut times = Vec::new();
        for (from, to) in &self.world.scenario.fault_windows {
            times.extend((0..AIMS_PER_WINDOW).map(|_| from.after_us(draw.below(to.since_us(*from)))));
        }
        times
    }

    /// A stream of its own for each aim, so that aims shift no other draws.
    fn draw(&mut self) -> Random {
        self.world.targeted_faults.aims_drawn += 1;
        self.world.streams.node.fork(AIM_FORK + self.world.targeted_faults.aims_drawn)
    }

    pub(super) fn aim(&mut self) {
        let mut draw = self.draw();
        let work = draw.pick(&WORK);
        let up: Vec<usize> = (0..self.world.hosts.len()).filter(|at| self.world.hosts[*at].is_up).collect();
        if up.is_empty() {
            return;
        }
        let one = *draw.pick(&up);
        let end = if draw.chance(1, 2) { NodeEnd::Power } else { NodeEnd::Killed };
        // One point most of the time: of several the first ones would nearly always come first.
        let points = match draw.chance(3, 4) {
            true => std::slice::from_ref(draw.pick(work.points)),
            false => work.points,
        };
        for at in up.into_iter().filter(|at| work.is_rare || *at == one) {
            self.arm(at, points, work.passed_max, end, &mut draw);
        }
    }

    /// A keyspace was split: some or all nodes crash as they split their partitions.
    pub(super) fn keyspace_split(&mut self) {
        if !self.world.scenario.has(FaultKind::CrashPoints) || self.world.phase != ClusterPhase::Faults {
            return;
        }
        let mut draw = self.draw();
        let end = if draw.chance(1, 2) { NodeEnd::Power } else { NodeEnd::Killed };
        let point = *draw.pick(&SPLIT);
        for at in 0..self.world.hosts.len() {
            if self.world.hosts[at].is_up && draw.chance(2, 3) {
                self.arm(at, &[point], 2, end, &mut draw);
            }
        }
    }

    fn arm(&mut self, at: usize, points: &[CrashPoint], passed_max: u64, end: NodeEnd, draw: &mut Random) {
        let slot = draw.below(self.world.hosts[at].slots.len() as u64) as usize;
        let (nth, left) = (1 + draw.below(passed_max), draw.below(CALLS_LEFT_MAX + 1));
        let now = self.world.now();
        self.world
            .trace
            .record(now, format_args!("AIM at n{at}/{slot}: {nth} times {points:?}, {left} calls, {end:?}"));
        self.world.targeted_faults.aimed_ends.insert(at, end);
        self.world.hosts[at].slots[slot].disk.cut_power_at(points, nth, left);
    }

    /// A process has ended, and its disks will be recovered.
    pub(super) fn ended(&mut self, at: usize) {
        self.world.targeted_faults.aimed_ends.remove(&at);
        let is_on = self.world.scenario.has(FaultKind::CrashPoints);
        if !is_on || self.world.phase != ClusterPhase::Faults {
            return;
        }
        let mut draw = self.draw();
        if draw.chance(1, RECOVERIES_OF) {
            let end = if draw.chance(1, 2) { NodeEnd::Power } else { NodeEnd::Killed };
            let point = *draw.pick(&CrashPoint::OF_RECOVERY);
            self.arm(at, &[point], 3, end, &mut draw);
        }
    }

    /// How a process ends of which a disk has no power any more.
    pub(super) fn end_at_cut(&mut self, at: usize) -> NodeEnd {
        let cut = self.world.hosts[at].slots.iter().find_map(|slot| slot.disk.cut_at());
        let Some(point) = cut else { return NodeEnd::Power };
        self.world.coverage.blob(engine_cases::crashed(point));
        self.world.coverage.fault(FaultKind::CrashPoints);
        self.world.trace.record(self.world.now(), format_args!("CRASH of n{at} at {point:?}"));
        if self.world.targeted_faults.aimed_ends.get(&at) == Some(&NodeEnd::Killed) {
            return NodeEnd::Killed;
        }
        NodeEnd::Power
    }

    /// No more crashes.
    pub(super) fn end(&mut self) {
        self.world.targeted_faults.aimed_ends.clear();
        for slot in self.world.hosts.iter().flat_map(|host| &host.slots) {
            slot.disk.cancel_aimed_cut();
        }
    }
}
