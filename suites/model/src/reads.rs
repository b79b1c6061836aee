//! A model of one read of two records of two partitions, which is to show both as they were at one moment: how many rounds does it take?
//!
//! Writes are one step each, and acknowledged with it, so that the order in which they are done is the one that every reader may have
//! seen: a read is right if both values stood together at some moment since it began. Answers may come at any time after they were
//! made; what was lost is asked for again, as a step that is not taken yet.

use std::fmt;

use stateright::{Model, Property};

/// Partitions, each with one record.
const PARTITIONS: usize = 2;

/// Highest timestamp that a clock shows, and writes of each record at most.
const CLOCK_MAX: u8 = 4;
const WRITES_MAX: u8 = 1;

/// What a read that has been served has shown was so at one moment since it began.
pub const ONE_MOMENT: &str = "a read shows one moment";
/// Some read is served in whose schedule all records are written after it has begun, be it before or after they were read.
pub const SERVED_LATE: &str = "a read is served, and all is written since it has begun";

/// How a read comes to be of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMethod {
    /// A second round says that nothing has changed.
    Confirmed,
    /// One round: each answer tells a timestamp up to which its partition will write nothing any more. Served if no version that was
    /// read lies above the least of them.
    Promised {
        /// All clocks show the same, always.
        clocks_agree: bool,
    },
    /// One round: no partition lets a client write what was read for a while. Served if all answers came within that while, by
    /// the reader's clock, from before it asked.
    ReadLocked {
        /// No partition's while ends before the reader's.
        rates_agree: bool,
    },
}

/// One partition, and what the reader has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Partition {
    /// Timestamp of the newest version.
    version: u8,
    writes: u8,
    /// It writes nothing at or below this.
    floor: u8,
    is_read_locked: bool,
    /// Version and floor that the reader received.
    read: Option<(u8, u8)>,
    is_confirmed: bool,
}

/// All that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadWorld {
    partitions: [Partition; PARTITIONS],
    /// What all clocks show, where they agree.
    now: u8,
    /// The reader's while has ended.
    is_late: bool,
    /// Versions that stood together since the read began.
    moments: Vec<[u8; PARTITIONS]>,
    served: Option<[u8; PARTITIONS]>,
}

/// What may happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadStep {
    /// A record is written at this timestamp, and that is acknowledged.
    Write(usize, u8),
    /// A record is read, and its partition writes nothing at or below this any more.
    Read(usize, u8),
    /// A record is confirmed, once all were read.
    Confirm(usize),
    /// Time passes.
    Tick,
    /// The reader's while ends.
    Late,
    /// A partition's while ends.
    ReadLockExpires(usize),
    /// The read is served.
    Serve,
}

impl fmt::Debug for ReadStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadStep::Write(at, timestamp) => write!(f, "write {at} at {timestamp}"),
            ReadStep::Read(at, floor) => write!(f, "read {at}, which promises {floor}"),
            ReadStep::Confirm(at) => write!(f, "confirm {at}"),
            ReadStep::Tick => write!(f, "tick"),
            ReadStep::Late => write!(f, "late"),
            ReadStep::ReadLockExpires(at) => write!(f, "lapse {at}"),
            ReadStep::Serve => write!(f, "serve"),
        }
    }
}

impl ReadWorld {
    fn versions(&self) -> [u8; PARTITIONS] {
        std::array::from_fn(|at| self.partitions[at].version)
    }

    /// What was read, if the way lets it be served.
    fn shown(&self, way: ReadMethod) -> Option<[u8; PARTITIONS]> {
        let mut versions = [0; PARTITIONS];
        let mut least = u8::MAX;
        for (partition, version) in self.partitions.iter().zip(&mut versions) {
            let (read, floor) = partition.read?;
            (*version, least) = (read, least.min(floor));
        }
        let is_served = match way {
            ReadMethod::Confirmed => self.partitions.iter().all(|partition| partition.is_confirmed),
            ReadMethod::Promised { .. } => versions.iter().all(|version| *version <= least),
            ReadMethod::ReadLocked { .. } => !self.is_late,
        };
        is_served.then_some(versions)
    }

    /// Carries out a step that may happen.
    fn take(&mut self, way: ReadMethod, step: ReadStep) -> Option<()> {
        let agreed = way == ReadMethod::Promised { clocks_agree: true };
        let may_show = |timestamp: u8, now: u8| !agreed || timestamp == now;
        match step {
            ReadStep::Write(at, timestamp) => {
                let partition = &mut self.partitions[at];
                let is_above = timestamp > partition.floor.max(partition.version);
                if partition.writes == WRITES_MAX
                    || partition.is_read_locked
                    || !is_above
                    || !may_show(timestamp, self.now)
                {
                    return None;
                }
                (partition.version, partition.writes) = (timestamp, partition.writes + 1);
                self.moments.push(self.versions());
            }
            ReadStep::Read(at, floor) => {
                let partition = &mut self.partitions[at];
                let is_promise = floor >= partition.version.max(partition.floor) && may_show(floor, self.now);
                if partition.read.is_some() || !is_promise {
                    return None;
                }
                (partition.read, partition.floor) = (Some((partition.version, floor)), floor);
                partition.is_read_locked = matches!(way, ReadMethod::ReadLocked { .. });
            }
            ReadStep::Confirm(at) => {
                let all_read = self.partitions.iter().all(|partition| partition.read.is_some());
                let partition = &mut self.partitions[at];
                let is_same = partition.read.is_some_and(|(version, _)| version == partition.version);
                if way != ReadMethod::Confirmed || partition.is_confirmed || !all_read || !is_same {
                    return None;
                }
                partition.is_confirmed = true;
            }
            ReadStep::Tick if agreed && self.now < CLOCK_MAX => self.now += 1,
            ReadStep::Late if matches!(way, ReadMethod::ReadLocked { .. }) && !self.is_late => {
                self.is_late = true
            }
            ReadStep::ReadLockExpires(at)
                if self.is_late || way == (ReadMethod::ReadLocked { rates_agree: false }) =>
            {
                if !std::mem::take(&mut self.partitions[at].is_read_locked) {
                    return None;
                }
            }
            ReadStep::Serve => self.served = Some(self.shown(way)?),
            ReadStep::Tick | ReadStep::Late | ReadStep::ReadLockExpires(_) => return None,
        }
        Some(())
    }
}

impl Model for ReadMethod {
    type State = ReadWorld;
    type Action = ReadStep;

    fn init_states(&self) -> Vec<ReadWorld> {
        vec![ReadWorld { moments: vec![[0; PARTITIONS]], ..ReadWorld::default() }]
    }

    fn actions(&self, world: &ReadWorld, steps: &mut Vec<ReadStep>) {
        if world.served.is_some() {
            return;
        }
        let of_partition = |at| {
            let timed =
                (0..=CLOCK_MAX).flat_map(move |time| [ReadStep::Write(at, time), ReadStep::Read(at, time)]);
            timed.chain([ReadStep::Confirm(at), ReadStep::ReadLockExpires(at)])
        };
        let all =
            (0..PARTITIONS).flat_map(of_partition).chain([ReadStep::Tick, ReadStep::Late, ReadStep::Serve]);
        steps.extend(all.filter(|step| world.clone().take(*self, *step).is_some()));
    }

    fn next_state(&self, world: &ReadWorld, step: ReadStep) -> Option<ReadWorld> {
        let mut world = world.clone();
        world.take(*self, step).map(|()| world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_MOMENT, |_, world: &ReadWorld| {
                world.served.is_none_or(|served| world.moments.contains(&served))
            }),
            Property::sometimes(SERVED_LATE, |_, world: &ReadWorld| {
                world.served.is_some() && world.moments.len() > PARTITIONS
            }),
        ]
    }
}
