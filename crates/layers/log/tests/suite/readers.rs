//! Readers that follow a log partition, searches by time, and trims.

use zerohop_base::random::Random;
use zerohop_layer_log::{LogError, LogPage, ReadLog, ReadRequest, TimeSearch, Trim, TrimGoal, TrimOutcome};

use crate::machine::ProcedureRun;
use crate::world::{Intent, PARTITIONS, World};

/// A reader of one log partition.
pub(crate) struct LogReader {
    partition: u32,
    offset: u64,
    machine: Option<ProcedureRun<LogPage>>,
    pub(crate) records: u64,
    pub(crate) gaps: u64,
}

impl LogReader {
    pub(crate) fn new(number: u32) -> Self {
        Self { partition: number % PARTITIONS, offset: 0, machine: None, records: 0, gaps: 0 }
    }

    pub(crate) fn step(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        let Some(machine) = &mut self.machine else {
            let request = ReadRequest {
                partition: self.partition,
                offset: self.offset,
                bytes: random.below(400) as usize,
                wait_until: if random.chance(1, 2) { world.now + random.below(300) } else { 0 },
            };
            self.machine = Some(ProcedureRun::new(ReadLog::new(request), Intent::None));
            return Ok(());
        };
        let Some(result) = machine.advance(world, random)? else { return Ok(()) };
        self.machine = None;
        let model = &world.partitions[self.partition as usize];
        match result {
            Ok(page) => {
                for batch in &page.batches {
                    for (offset, record) in batch.records_from(self.offset) {
                        if offset != self.offset {
                            return Err(format!("a reader at {} gets {offset}", self.offset));
                        }
                        if model.records.get(offset as usize) != Some(&record) {
                            return Err(format!("a reader gets another record at {offset}"));
                        }
                        self.offset += 1;
                        self.records += 1;
                    }
                }
                if page.next > model.next() || page.first > model.first || page.next < self.offset {
                    return Err("a page has the wrong ends of its log".to_owned());
                }
                // Some readers begin again, from places that may be trimmed.
                if random.chance(1, 30) {
                    self.offset = random.below(model.next() + 1);
                }
                Ok(())
            }
            Err(LogError::OutOfRange { first, next }) => {
                self.gaps += 1;
                if self.offset >= model.first || first > model.first || next > model.next() {
                    return Err(format!("{} is called out of range", self.offset));
                }
                self.offset = first;
                Ok(())
            }
            Err(error) => Err(format!("a read is refused: {error}")),
        }
    }

    /// Reads to the end.
    pub(crate) fn finish(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        for _ in 0..100_000 {
            world.now += 1;
            if self.offset == world.partitions[self.partition as usize].next() {
                return Ok(());
            }
            self.step(world, random)?;
        }
        Err(format!("a reader stops at {}", self.offset))
    }
}

/// Searches by time, one after the other.
#[derive(Default)]
pub(crate) struct Searcher {
    active: Option<(u32, u64, u64, ProcedureRun<Option<u64>>)>,
    pub(crate) found: u64,
}

impl Searcher {
    pub(crate) fn step(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        let Some((partition, time, next, machine)) = &mut self.active else {
            let partition = random.below(u64::from(PARTITIONS)) as u32;
            let time = world.now.saturating_sub(random.below(300));
            let next = world.partitions[partition as usize].next();
            let machine = ProcedureRun::new(TimeSearch::new(partition, time), Intent::None);
            self.active = Some((partition, time, next, machine));
            return Ok(());
        };
        let (partition, time, next) = (*partition, *time, *next);
        let Some(result) = machine.advance(world, random)? else { return Ok(()) };
        self.active = None;
        let result = result.map_err(|error| format!("a search is refused: {error}"))?;
        let model = &world.partitions[partition as usize];
        let end = result.unwrap_or(next);
        let missed = (model.first..end).find(|offset| model.records[*offset as usize].time >= time);
        if let Some(missed) = missed {
            return Err(format!("a search for {time} finds {result:?}, not {missed}"));
        }
        if let Some(found) = result {
            self.found += 1;
            if model.records[found as usize].time < time {
                return Err(format!("a search for {time} finds an earlier record"));
            }
        }
        Ok(())
    }
}

/// Trims, one after the other.
#[derive(Default)]
pub(crate) struct Trimmer {
    active: Option<(u32, TrimGoal, ProcedureRun<TrimOutcome>)>,
    pub(crate) batches: u64,
}

impl Trimmer {
    pub(crate) fn step(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        let Some((partition, goal, machine)) = &mut self.active else {
            if !random.chance(1, 12) {
                return Ok(());
            }
            let partition = random.below(u64::from(PARTITIONS)) as u32;
            let model = &world.partitions[partition as usize];
            let goal = match random.below(3) {
                0 => TrimGoal::Below(model.first + random.below(model.next() - model.first + 3)),
                1 => TrimGoal::Retention { before: Some(world.now.saturating_sub(400)), bytes: None },
                _ => TrimGoal::Retention { before: None, bytes: Some(random.below(3000)) },
            };
            let machine = ProcedureRun::new(Trim::new(partition, goal), Intent::Trim(goal));
            self.active = Some((partition, goal, machine));
            return Ok(());
        };
        let (partition, goal) = (*partition, *goal);
        let Some(result) = machine.advance(world, random)? else { return Ok(()) };
        self.active = None;
        let model = &world.partitions[partition as usize];
        match result {
            Ok(outcome) => {
                self.batches += outcome.batches;
                if outcome.first > model.first {
                    return Err("a trim reports a first offset above the real one".to_owned());
                }
                match goal {
                    TrimGoal::Below(offset)
                        if model.first < offset.min(model.next()) && offset <= outcome.first =>
                    {
                        Err(format!("a trim below {offset} leaves {}", model.first))
                    }
                    _ => Ok(()),
                }
            }
            Err(LogError::Unavailable(_) | LogError::Busy) => Ok(()),
            Err(error) => Err(format!("a trim is refused: {error}")),
        }
    }
}
