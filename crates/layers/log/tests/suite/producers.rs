//! Producers with several batches on the way, that repeat appends whose answers are lost, and that are replaced while their
//! appends go on.

use zerohop_base::random::Random;
use zerohop_layer_log::{
    AppendOutcome, Batch, BatchLimits, LogError, LogRecord, ProducerId, ProducerStamp, append,
};

use crate::machine::ProcedureRun;
use crate::model::value_of;
use crate::world::{Intent, PARTITIONS, World};

/// The most batches on the way.
const BATCHES_MAX: usize = 4;

struct ActiveAppend {
    batch: Batch,
    machine: ProcedureRun<AppendOutcome>,
    is_retry: bool,
}

/// A producer of one log partition.
pub(crate) struct Producer {
    number: u8,
    partition: u32,
    epoch: u16,
    /// Without, it has no sequence numbers, and repeats nothing.
    is_idempotent: bool,
    sequence: u32,
    active: Vec<ActiveAppend>,
    pub(crate) acknowledged: u64,
    pub(crate) duplicates: u64,
    pub(crate) fenced: u64,
    /// The appends of the epochs before, which do not know that they are replaced.
    replaced: Vec<ActiveAppend>,
}

impl Producer {
    pub(crate) fn new(number: u8) -> Self {
        Self {
            number,
            partition: u32::from(number) % PARTITIONS,
            epoch: 0,
            is_idempotent: number != 0,
            sequence: 0,
            active: Vec::new(),
            acknowledged: 0,
            duplicates: 0,
            fenced: 0,
            replaced: Vec::new(),
        }
    }

    fn machine(&self, batch: &Batch) -> ProcedureRun<AppendOutcome> {
        ProcedureRun::new(append(self.partition, batch.clone()), Intent::Append)
    }

    fn begin(&mut self, world: &World, random: &mut Random) {
        let count = 1 + random.below(4) as u32;
        let records = (0..count).map(|index| LogRecord {
            time: world.now.saturating_sub(random.below(60)),
            key: random.chance(1, 2).then(|| vec![random.below(9) as u8]),
            value: Some(value_of(self.number, self.epoch, self.sequence + index)),
            headers: vec![("a".to_owned(), None); random.below(2) as usize],
        });
        let records: Vec<LogRecord> = records.collect();
        let stamp =
            ProducerStamp { id: ProducerId([self.number; 16]), epoch: self.epoch, sequence: self.sequence };
        let stamp = self.is_idempotent.then_some(stamp);
        self.sequence += count;
        let batch = Batch::new(&records, stamp, &BatchLimits::default()).expect("the batch is small");
        let machine = self.machine(&batch);
        self.active.push(ActiveAppend { batch, machine, is_retry: false });
    }

    /// Does one step. The error is a violation.
    pub(crate) fn step(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        if self.is_idempotent && random.chance(1, 300) {
            self.epoch += 1;
            self.sequence = 0;
            self.replaced.append(&mut self.active);
        }
        if !self.replaced.is_empty() && random.chance(1, 3) {
            let place = random.below(self.replaced.len() as u64) as usize;
            let one = self.replaced.swap_remove(place);
            if let Some(one) = self.advance(one, world, random)? {
                self.replaced.push(one);
            }
            return Ok(());
        }
        if self.active.is_empty() || (self.active.len() < BATCHES_MAX && random.chance(1, 6)) {
            self.begin(world, random);
            return Ok(());
        }
        let place = random.below(self.active.len() as u64) as usize;
        let one = self.active.remove(place);
        if let Some(one) = self.advance(one, world, random)? {
            self.active.insert(place, one);
        }
        Ok(())
    }

    /// Result: the append, unless it has ended.
    fn advance(
        &mut self,
        mut one: ActiveAppend,
        world: &mut World,
        random: &mut Random,
    ) -> Result<Option<ActiveAppend>, String> {
        let Some(result) = one.machine.advance(world, random)? else { return Ok(Some(one)) };
        match result {
            Ok(outcome) => {
                self.acknowledged += 1;
                self.duplicates += u64::from(outcome.is_duplicate);
                if outcome.is_duplicate && !one.is_retry {
                    return Err("the first append of a batch is called a duplicate".to_owned());
                }
                let from = outcome.base as usize;
                let records = &world.partitions[self.partition as usize].records;
                let stored = records.get(from..from + one.batch.count() as usize);
                if !stored.is_some_and(|stored| stored.iter().cloned().eq(one.batch.records())) {
                    return Err(format!("an acknowledged batch is not at its offset {from}"));
                }
                Ok(None)
            }
            Err(LogError::OldSequence) if one.is_retry => {
                let model = &world.partitions[self.partition as usize];
                let is_there = one.batch.records().all(|record| model.contains(&record));
                if is_there {
                    Ok(None)
                } else {
                    Err("a batch is called appended, and is not there".to_owned())
                }
            }
            Err(LogError::ProducerFenced { epoch }) => {
                self.fenced += 1;
                let own = one.batch.producer().map(|stamp| stamp.epoch);
                if own >= Some(epoch) { Err("a producer is fenced by itself".to_owned()) } else { Ok(None) }
            }
            Err(
                LogError::Unavailable(_)
                | LogError::SequenceGap { .. }
                | LogError::UnknownProducer
                | LogError::Busy,
            ) if self.is_idempotent => {
                one.machine = self.machine(&one.batch);
                one.is_retry = true;
                Ok(Some(one))
            }
            Err(LogError::Unavailable(_) | LogError::Busy) => Ok(None),
            Err(error) => Err(format!("an append is refused: {error}")),
        }
    }

    /// Ends what it has begun: each batch must be acknowledged.
    pub(crate) fn finish(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        self.replaced.clear();
        for _ in 0..10_000 {
            if self.active.is_empty() {
                return Ok(());
            }
            world.now += 1;
            let one = self.active.remove(0);
            if let Some(one) = self.advance(one, world, random)? {
                self.active.push(one);
            }
        }
        Err(format!("producer {} never ends its appends", self.number))
    }
}
