//! Clients that run programs of the layers above (`crate::programs`) while all faults occur.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_placement::Durability;
use zerohop_session::procedures::ProcedureSettings;

use super::region_splits::RegionSplits;
use super::scenario::{ClusterScenario, PlannedKeyspace};
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::kinds::{FaultKind, Kinds};
use crate::limits::START;
use crate::programs::{ClientPrograms, ProgramClient};
use crate::streams::{Draw, Streams};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// The kinds of fault that cannot occur: they need other operations or hours, or, as copies of requests do, make each refusal doubtful.
const WITHOUT: [FaultKind; 4] =
    [FaultKind::Drops, FaultKind::RedisClients, FaultKind::Sleeps, FaultKind::RepeatedRequests];
/// The kinds that occur in each run.
const ALWAYS: [FaultKind; 3] = [FaultKind::Splits, FaultKind::Moves, FaultKind::ClientDeaths];

/// Nodes in a run, at most.
const NODES_MAX: usize = 5;
/// The deadlines of operations.
const DEADLINES_US: [u64; 2] = [600 * MS, 1_500 * MS];
/// The mean life of a client in a fault window.
const LIFE_US: u64 = 6 * SECOND;

/// The programs of a run, if it has any.
#[derive(Debug, Default)]
pub(crate) struct RunPrograms {
    pub(crate) programs: Option<Box<dyn ClientPrograms>>,
    stop: Arc<AtomicBool>,
    /// Each task has a clone until it ends, or is dropped with its client.
    tasks: Arc<()>,
}

impl RunPrograms {
    pub(super) fn new(programs: Option<Box<dyn ClientPrograms>>) -> Self {
        Self { programs, ..Self::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.programs.is_some()
    }

    pub(super) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.tasks) == 1
    }

    /// Makes the scenario that of a run of programs: short, and with their keyspaces only.
    pub(super) fn adapt(&self, scenario: &mut ClusterScenario, streams: &Streams) {
        let Some(programs) = &self.programs else { return };
        let mut random = streams.programs.fork(1);
        let change = |kinds: Kinds| {
            let kinds = WITHOUT.into_iter().fold(kinds, Kinds::without);
            ALWAYS.into_iter().fold(kinds, Kinds::with)
        };
        (scenario.kinds, scenario.drawn) = (change(scenario.kinds), change(scenario.drawn));
        scenario.nodes.truncate(NODES_MAX);
        scenario.late = scenario.late.min(scenario.nodes.len().saturating_sub(3));
        scenario.managers = scenario.managers.min(3);
        let mut kept = |separators: Option<&'static [&'static [u8]]>| {
            let (replicas, min_in_sync) = *random.pick(&[(3, 2), (3, 2), (3, 3), (2, 2), (2, 1)]);
            let partitions = 1 + u32::from(separators.is_none() && random.chance(1, 2));
            PlannedKeyspace { durability: Durability::Sync, partitions, replicas, min_in_sync, separators }
        };
        let hashed = kept(None);
        let ordered = kept(Some(&[]));
        let separators = Some(*random.pick(programs.regions().at_creation));
        scenario.keyspaces = vec![PlannedKeyspace { separators, ..ordered }, hashed];
        let at = |ms| START.after_us(ms * MS);
        let first = at(random.between(4_000, 5_000));
        let second = at(random.between(16_000, 18_000));
        scenario.fault_windows =
            vec![(first, first.after_us(8 * SECOND)), (second, second.after_us(8 * SECOND))];
        scenario.client_pause = None;
        scenario.network.repeats = 0;
        scenario.faults_end = second.after_us(9 * SECOND);
        scenario.clients = random.between(4, 6) as usize;
    }

    /// The splits of regions of a run of programs.
    pub(super) fn region_splits(&self, streams: &Streams) -> Option<RegionSplits> {
        let regions = self.programs.as_ref()?.regions();
        Some(RegionSplits::new(streams.programs.fork(2), (true, true), regions.splits.to_vec()))
    }

    /// All programs are to end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// See the module.
pub(super) struct ProgramClients<'w> {
    pub(super) world: &'w mut SimulatedCluster,
}

impl ProgramClients<'_> {
    /// A client begins the task of its present life.
    pub(super) fn begin(&mut self, client: usize) {
        let now = self.world.now();
        let life = self.world.clients[client].life;
        let mut random = self.draws(client);
        let dies_at = now.after_us(random.wait(LIFE_US));
        self.world.event_queue.at(dies_at, ClusterEvent::ClientDies { client, life });
        let begun = self.client(client, random);
        if let Some(programs) = &mut self.world.programs.programs {
            let task = programs.begin(begun);
            self.start(client, task);
        }
    }

    /// The last task begins.
    pub(super) fn conclude(&mut self) {
        let random = self.draws(0).fork(1);
        let last = self.client(0, random);
        if let Some(programs) = &mut self.world.programs.programs {
            let task = programs.conclude(last);
            self.start(0, task);
        }
    }

    /// A client dies, and another one takes its place.
    pub(super) fn die(&mut self, client: usize, life: u32) {
        if self.world.clients[client].life == life && self.world.phase == ClusterPhase::Faults {
            self.world.coverage.fault(FaultKind::ClientDeaths);
            self.world.kill_client(client);
        }
    }

    fn draws(&self, client: usize) -> Random {
        let life = self.world.clients[client].life;
        self.world.streams.programs.fork(3).fork(u64::from(life) << 32 | client as u64)
    }

    fn client(&self, number: usize, mut random: Random) -> ProgramClient {
        let found = &self.world.clients[number];
        let settings = ProcedureSettings::new(Duration::from_micros(*random.pick(&DEADLINES_US)));
        ProgramClient {
            number,
            life: found.life,
            cluster: found.procedures.handle(settings),
            random,
            stop: Arc::clone(&self.world.programs.stop),
        }
    }

    fn start(&mut self, client: usize, task: impl Future<Output = ()> + Send + 'static) {
        let now: Time = self.world.now();
        let counted = Arc::clone(&self.world.programs.tasks);
        self.world.clients[client].procedures.start(async move {
            task.await;
            drop(counted);
        });
        self.world.schedule_client(client, now.after_us(1));
    }
}
