//! Readers of a shared cursor. They repeat pops whose answers are lost.

use zerohop_base::random::Random;
use zerohop_layer_log::{LogError, PopLog, PopOutcome, PopRequest, ReaderId};

use crate::machine::ProcedureRun;
use crate::world::{CURSOR, Intent, PARTITIONS, World};

/// A reader.
pub(crate) struct Popper {
    reader: ReaderId,
    partition: u32,
    number: u64,
    active: Option<(PopRequest, ProcedureRun<PopOutcome>)>,
    pub(crate) records: u64,
    pub(crate) repeats: u64,
}

impl Popper {
    pub(crate) fn new(number: u8) -> Self {
        Self {
            reader: ReaderId([number; 16]),
            partition: u32::from(number) % PARTITIONS,
            number: 0,
            active: None,
            records: 0,
            repeats: 0,
        }
    }

    fn run(request: PopRequest) -> (PopRequest, ProcedureRun<PopOutcome>) {
        let intent = Intent::Pop(request.reader);
        (request.clone(), ProcedureRun::new(PopLog::new(request), intent))
    }

    pub(crate) fn step(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        let Some((request, run)) = &mut self.active else {
            self.number += 1 + random.below(2);
            self.active = Some(Self::run(PopRequest {
                partition: self.partition,
                cursor: CURSOR.to_owned(),
                reader: self.reader,
                number: self.number,
                records: 1 + random.below(9) as u32,
                wait_until: if random.chance(1, 2) { world.now + random.below(200) } else { 0 },
            }));
            return Ok(());
        };
        let Some(result) = run.advance(world, random)? else { return Ok(()) };
        match result {
            Ok(pop) => {
                self.active = None;
                self.records += pop.records.len() as u64;
                world.deliver_pop(self.partition, self.reader, &pop)
            }
            Err(LogError::Unavailable(_) | LogError::Busy) => {
                self.repeats += 1;
                self.active = Some(Self::run(request.clone()));
                Ok(())
            }
            Err(error) => Err(format!("a pop is refused: {error}")),
        }
    }

    /// Ends its pop.
    pub(crate) fn finish(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        for _ in 0..10_000 {
            if self.active.is_none() {
                return Ok(());
            }
            world.now += 1;
            self.step(world, random)?;
        }
        Err("a pop does not end".to_owned())
    }
}
