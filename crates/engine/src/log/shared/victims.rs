//! Which segments compaction takes, and which removals may go with them.

use std::collections::BTreeMap;

use super::format::{LogPartition, LogStream};
use super::live_bytes::LiveBytes;
use super::rounds::LogRounds;
use super::segment::SharedSegment;
use super::streams::{LogSlot, SharedLog};
use crate::planted::{Bug, is_planted};

/// A segment is a victim from this share of dead bytes on, in percent.
const DEAD_PERCENT_MIN: u64 = 25;

/// A promise that entries of a partition above an index stay where a reader of the log finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HoldRow {
    pub(super) id: u64,
    pub(super) slot: LogSlot,
    pub(super) above: u64,
}

/// The slots that own entries of a log partition, and the last index that each owns.
#[derive(Debug, Default)]
pub(crate) struct SlotOwners {
    by_number: BTreeMap<LogPartition, Vec<(LogSlot, u64)>>,
}

impl SlotOwners {
    pub(crate) fn of(log: &SharedLog) -> SlotOwners {
        let mut owners = SlotOwners::default();
        for slot in log.slots() {
            for ancestor in log.creations.lineage_of(log.number(slot)) {
                owners.by_number.entry(ancestor.number).or_default().push((slot, ancestor.through));
            }
        }
        owners
    }

    /// The slots that own an entry.
    pub(crate) fn slots(&self, number: LogPartition, index: u64) -> impl Iterator<Item = LogSlot> {
        let owners = self.by_number.get(&number).into_iter().flatten();
        owners.filter(move |(_, through)| index <= *through).map(|(slot, _)| *slot)
    }
}

/// For each partition, the lowest index from which on its removals must stay, because of dead entries in a segment that they would
/// come to life without. Of two segments: one may be the victim.
#[derive(Debug, Default)]
pub(super) struct CompactionBlockers {
    by_slot: BTreeMap<LogSlot, SlotObstacles>,
    /// There is a segment of which nothing is known.
    is_unknown: bool,
}

#[derive(Debug)]
struct SlotObstacles {
    /// The partition had this number.
    number: LogPartition,
    /// Removals above this index must stay, because of that segment. The lowest two.
    lowest: [(u64, u64); 2],
}

impl CompactionBlockers {
    pub(super) fn of(log: &SharedLog, owners: &SlotOwners) -> CompactionBlockers {
        let mut obstacles = CompactionBlockers::default();
        for slot in log.slots() {
            let none = SlotObstacles { number: log.number(slot), lowest: [(u64::MAX, 0); 2] };
            obstacles.by_slot.insert(slot, none);
        }
        let segments = log.segments().into_iter().filter_map(|number| log.segment(number));
        for segment in segments.filter(|segment| segment.header.stream != LogStream::Memory) {
            obstacles.is_unknown |= !segment.state.are_runs_known || !segment.state.is_counted;
            let mut found: BTreeMap<LogSlot, (u64, u64)> = BTreeMap::new();
            for run in &segment.runs {
                for slot in owners.slots(run.number, run.first) {
                    let (first, bytes) = found.entry(slot).or_insert((u64::MAX, 0));
                    *first = run.first.min(*first);
                    *bytes += u64::from(run.bytes);
                }
            }
            for (slot, (first, bytes)) in found {
                let uses = &segment.uses;
                let has_no_dead = bytes <= uses.needed_by_replay(slot.0) && !uses.has_dead_contents(slot.0);
                if has_no_dead && !uses.is_rounded() && !segment.state.is_damaged {
                    continue;
                }
                // A cold segment has nothing that was dead when it was written.
                let is_cold = segment.header.stream == LogStream::Cold;
                let judged = if is_cold { segment.uses.judged(slot.0) } else { 0 };
                let Some(known) = obstacles.by_slot.get_mut(&slot) else { continue };
                let lowest = &mut known.lowest;
                let mut all = [lowest[0], lowest[1], (first.max(judged), segment.header.number)];
                all.sort_unstable();
                *lowest = [all[0], all[1]];
            }
        }
        obstacles
    }

    /// Whether nothing comes to life in another segment than the victim without a removal of this index.
    pub(super) fn may_go(&self, log: &SharedLog, slot: LogSlot, index: u64, victim: u64) -> bool {
        if is_planted(Bug::RemovalLeftOut) {
            return true;
        }
        // A log that has begun since may own entries that the walk has not seen.
        let Some(known) = self.by_slot.get(&slot) else { return false };
        let others = known.lowest.iter().filter(|(_, segment)| *segment != victim);
        let is_free = others.map(|(lowest, _)| *lowest).min().is_none_or(|lowest| index <= lowest);
        is_free && !self.is_unknown && known.number == log.number(slot)
    }

    /// The segment for which a removal of this index must stay.
    fn obstacle(&self, slot: LogSlot, index: u64, victim: u64) -> Option<u64> {
        let lowest = self.by_slot.get(&slot)?.lowest;
        let mut others = lowest.into_iter().filter(|(_, segment)| *segment != victim);
        others.find(|(lowest, _)| *lowest < index).map(|(_, segment)| segment)
    }
}

/// A segment that compaction may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    pub(super) segment: u64,
    /// Bytes that go with it, and those that are copied.
    pub(super) dead: u64,
    pub(super) used: u64,
    /// How many segments are newer.
    age: u64,
    /// It keeps removals of others from going.
    is_obstacle: bool,
    /// Nothing in it is used, so it need not be read.
    pub(super) is_empty: bool,
}

impl Victim {
    /// Whether so much of it is dead that copying the rest is worth it.
    pub(super) fn is_sparse(&self) -> bool {
        self.is_empty || 100 * self.dead >= DEAD_PERCENT_MIN * (self.dead + self.used)
    }

    /// What it gives for what it costs: old segments first, because what lives in them stays.
    fn score(&self) -> f64 {
        let all = (self.dead + self.used).max(1) as f64;
        let (dead, live) = (self.dead as f64 / all, self.used as f64 / all);
        dead * (1 + self.age) as f64 / (1.0 + live)
    }
}

/// All segments that compaction may take, in the order of their numbers; with any share of dead bytes.
pub(super) fn victims(
    log: &SharedLog,
    rounds: &LogRounds,
    holds: &[HoldRow],
    busy: impl Fn(u64) -> bool,
) -> Vec<Victim> {
    // The owner does not know some places yet, and has counted nothing there.
    if !log.failed.moved.is_empty() {
        return Vec::new();
    }
    let owners = SlotOwners::of(log);
    // Most of the time no segment has removals.
    let mut obstacles = None;
    let numbers = log.segments();
    let mut victims = Vec::new();
    let mut blocking: Vec<u64> = Vec::new();
    let in_memory = log.sealed.values().filter(|segment| segment.header.stream == LogStream::Memory);
    for number in rounds.victims(log).into_iter().chain(in_memory.map(|segment| segment.header.number)) {
        let Some(segment) = log.segment(number) else { continue };
        if busy(number) || !segment.state.is_counted || has_hold(segment, &owners, holds) {
            continue;
        }
        let (total, LiveBytes { live, kept, .. }) = (segment.entry_bytes(), segment.uses.sums());
        let (mut stay, mut obstacle) = (0, None);
        for (slot, bytes, last) in segment.uses.removals() {
            let obstacles = obstacles.get_or_insert_with(|| CompactionBlockers::of(log, &owners));
            if !obstacles.may_go(log, LogSlot(slot), last, number) {
                stay += u64::from(bytes);
                obstacle = obstacle.or(obstacles.obstacle(LogSlot(slot), last, number));
            }
        }
        let used = live + kept + stay;
        if 100 * stay >= DEAD_PERCENT_MIN * total {
            blocking.extend(obstacle);
        }
        let is_empty = used == 0 && segment.state.are_removals_counted;
        if segment.state.is_damaged && !is_empty {
            continue;
        }
        let age = numbers.len() - numbers.partition_point(|other| *other <= number);
        let dead = total.saturating_sub(used);
        victims.push(Victim { segment: number, dead, used, age: age as u64, is_obstacle: false, is_empty });
    }
    for victim in &mut victims {
        victim.is_obstacle = blocking.contains(&victim.segment);
    }
    victims
}

/// The next victim: one without anything to copy, otherwise the one that is most worth it. If the disk is short, any that has dead
/// bytes. Where removals must stay, and are many, the segment that keeps them from going.
pub(super) fn choose(victims: &[Victim], is_short: bool) -> Option<Victim> {
    let empty = victims.iter().find(|victim| victim.is_empty);
    let is_worth = |victim: &&Victim| victim.is_sparse() || is_short && victim.dead > 0;
    let best = || {
        let worth = victims.iter().filter(is_worth);
        worth.max_by(|a, b| a.score().total_cmp(&b.score()).then(b.segment.cmp(&a.segment)))
    };
    let obstacle = || victims.iter().find(|victim| victim.is_obstacle && victim.dead > 0);
    empty.or_else(best).or_else(obstacle).copied()
}

/// Whether a reader uses entries of a segment.
pub(super) fn has_hold(segment: &SharedSegment, owners: &SlotOwners, holds: &[HoldRow]) -> bool {
    if is_planted(Bug::HoldIgnored) {
        return false;
    }
    let mut runs = segment.runs.iter();
    !holds.is_empty()
        && runs.any(|run| {
            owners
                .slots(run.number, run.first)
                .any(|slot| holds.iter().any(|hold| hold.slot == slot && run.last > hold.above))
        })
}
