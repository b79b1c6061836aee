//! The engine under test, its disk, and the models of its partitions.

use zerohop_base::random::Random;
use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Durability, EngineError, PartitionId, PartitionOptions};

use super::TestEngine as Engine;
use super::part::ModelledPartition;
use super::plan::SeedPlan;

/// The whole state of one seed.
pub struct EngineWorld {
    pub random: Random,
    pub plan: SeedPlan,
    pub disk: SimulatedDisk,
    pub engine: Option<Engine>,
    pub parts: Vec<ModelledPartition>,
    pub now_ms: u64,
    pub step: u64,
    /// Whether a fault was switched on since the engine was opened: operations may fail, partitions
    /// may have stopped.
    pub disturbed: bool,
    /// A power cut will happen in the middle of some call; the number of steps until it happens for
    /// certain.
    pub power_cut_in: Option<u64>,
    pub trace: Vec<String>,
    /// The number of partitions so far.
    pub ids: u64,
    is_traced: bool,
    /// Prints the trace at once, for a seed that does not end.
    is_live: bool,
}

/// The effect of an operation that has failed.
pub enum ErrorVerdict {
    /// It was refused, and nothing changed.
    Refused,
    /// The disk failed: the operation may have happened in part.
    Failed,
}

impl EngineWorld {
    pub fn new(seed: u64, is_shared: bool, is_traced: bool) -> EngineWorld {
        let mut random = Random::new(seed);
        let plan = SeedPlan::of(&mut random);
        let plan = if is_shared { plan.over_shared_log() } else { plan };
        EngineWorld {
            disk: SimulatedDisk::new(seed ^ 0x5EED),
            random,
            plan,
            engine: None,
            parts: Vec::new(),
            now_ms: 0,
            step: 0,
            disturbed: false,
            power_cut_in: None,
            trace: Vec::new(),
            ids: 0,
            is_traced,
            is_live: std::env::var("ZEROHOP_TRACE").is_ok_and(|value| value == "live"),
        }
    }

    /// Runs all steps and the last phase.
    pub fn run(&mut self) -> Result<(), String> {
        let (engine, _) =
            Engine::open(self.disk.clone(), self.plan.options).map_err(|e| format!("open: {e}"))?;
        self.engine = Some(engine);
        for &(durability, is_group) in &self.plan.partitions.clone() {
            let id = self.new_id();
            let mut part = ModelledPartition::new(id, zerohop_engine::Handle(0), durability, is_group);
            part.handle = self.declare(id, durability, part.index_seed)?;
            self.parts.push(part);
        }
        for step in 0..self.plan.steps {
            self.step = step;
            self.one_step()?;
        }
        self.clean_restart()?;
        if self.plan.corruption { self.corruption() } else { Ok(()) }
    }

    /// A partition id that was never used.
    pub fn new_id(&mut self) -> PartitionId {
        self.ids += 1;
        PartitionId((self.ids - 1) * ((1 << 32) + 1) + 1)
    }

    pub fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("the engine is open between steps")
    }

    /// Opens a partition as its model says.
    pub fn declare(
        &mut self,
        id: PartitionId,
        durability: Durability,
        index_seed: u64,
    ) -> Result<zerohop_engine::Handle, String> {
        let options = PartitionOptions { durability, index_seed };
        let holds_state = self.plan.has_state_in_log;
        let opened = self.engine().partition(id, options).and_then(|handle| {
            if holds_state {
                self.engine().declare_state_in_log(handle)?;
            }
            Ok(handle)
        });
        opened.map_err(|e| format!("partition {id}: {e}"))
    }

    #[expect(clippy::print_stderr, reason = "a trace that is asked for, told as it happens")]
    pub fn trace(&mut self, what: impl FnOnce() -> String) {
        if self.is_traced {
            let line = format!("  {:4} {}", self.step, what());
            if self.is_live {
                eprintln!("{line}");
            }
            self.trace.push(line);
        }
    }

    /// Whether an error is permitted now.
    pub fn check_error(
        &mut self,
        what: &str,
        durability: Durability,
        error: EngineError,
    ) -> Result<ErrorVerdict, String> {
        self.trace(|| format!("{what} -> {error}"));
        match error {
            EngineError::DiskFull { .. } | EngineError::Scarce { .. } if self.plan.fills_disk => {
                Ok(ErrorVerdict::Refused)
            }
            EngineError::MemoryFull { .. } if durability == Durability::Memory => Ok(ErrorVerdict::Refused),
            EngineError::Stopped { .. } if self.disturbed => Ok(ErrorVerdict::Refused),
            EngineError::Disk(_) if self.disturbed => Ok(ErrorVerdict::Failed),
            other => Err(format!("{what}: {other}")),
        }
    }
}
