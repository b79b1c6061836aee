//! The scenario of one seed: the size of the cluster, its contents, and its faults.

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_engine::EngineOptions;
use zerohop_engine::log::shared::format::LogId;
use zerohop_placement::Durability;

use super::region_splits::RegionSplits;
use super::watchers::keeps_history;
use crate::kinds::{CAN_BREAK_INVARIANTS, FaultKind, Kinds};
use crate::limits::{CLUSTER_CALLS_PER_SECOND, START};
use crate::scenario::NetworkFaults;
use crate::streams::{Draw, Streams};
use crate::workload::transactional::KEYSPACES;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// Longer than sessions are remembered by a slow clock, plus the time until expired sessions are
/// next removed.
const CLIENT_PAUSE_US_MIN: u64 = 660 * SECOND;

/// Instances with less memory get no transactional keyspace with `memory` durability.
const MEMORY_BYTES_MIN: u64 = 8 << 20;

/// After so many bytes engines look for work in runs with crashes in it: a partition of a run has some hundred KiB.
const CHECKS_AFTER_BYTES: [u64; 3] = [2 << 10, 8 << 10, 32 << 10];

/// Kinds that are not drawn with the others.
const DRAWN_APART: [FaultKind; 4] =
    [FaultKind::Sleeps, FaultKind::RedisClients, FaultKind::CrashPoints, FaultKind::BrokenInvariants];

/// The stream that draws whether a run has Redis clients: by this one, the seeds that show mutants of
/// other parts have none.
const REDIS_FORK: u64 = 2_461;

/// The stream that draws whether a run has crashes at points of an engine's work. By this one, the seeds that show mutants
/// of other parts have none, and stay as they are.
const CRASH_POINTS_FORK: u64 = 32_268_403;

/// The stream that draws whether invariants break in a run, for the same reason.
const BREAKS_FORK: u64 = 2_288;

/// The stream that draws whether a keyspace is ordered, for the same reason.
const ORDER_FORK: u64 = 6_653_577;

/// Where keyspaces of single operations are divided: nowhere, or between their keys and at some of them, so that scans pass from region to region.
const SEPARATORS: [&[&[u8]]; 6] = [
    &[],
    &[],
    &[b"many-2"],
    &[b"many-17", b"many-25", b"many-3"],
    &[b"list-1", b"many-0", b"many-22", b"many-35", b"many-9", b"mix-1"],
    &[b"a", b"many-\0", b"many-30\0", b"many-4", b"zz"],
];

/// Where those of transactions are: a register and its accounts, and the two accounts of a bank, are in several regions.
const SEPARATORS_OF_TRANSACTIONS: [&[&[u8]]; 4] = [
    &[],
    &[b"List-1"],
    &[b"Account-1", b"Cell-1", b"List-2", b"Register-1"],
    &[b"Cell", b"List-0\0", b"Register", b"\xFFzhbblob-1"],
];

/// The keys at which regions are split: all of these.
fn region_keys() -> Vec<&'static [u8]> {
    SEPARATORS.iter().chain(&SEPARATORS_OF_TRANSACTIONS).flat_map(|keys| keys.iter().copied()).collect()
}

/// The stream that draws whether clients truncate the plain blob in steps, for the same reason.
const TRUNCATIONS_FORK: u64 = 51_953;

/// The stream that draws whether messages of replication are short, for the same reason.
const SHORT_MESSAGES_FORK: u64 = 380;

/// The stream that draws, in runs with short messages, whether primaries send only the first of several, for the same reason.
const HALVES_FORK: u64 = 68;

/// The stream that draws whether primaries are cut off from all but one in-sync replica, for the same reason.
const PAIR_CUTS_FORK: u64 = 1_546;

/// The stream that draws whether members die again while their group recovers, for the same reason.
const DOUBLE_DEATHS_FORK: u64 = 4_517;

/// The stream that draws whether the clocks of nodes are coarse, for the same reason.
const COARSE_CLOCKS_FORK: u64 = 6_213;

/// The steps of coarse clocks. Two of them, and the difference of two rates, are less than the time by which a lease is waited for
/// longer than it lasts.
const CLOCK_STEPS_MS: [u64; 3] = [2, 4, 7];

/// Everything that is drawn before a run begins. Times are in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct ClusterScenario {
    /// The kinds of fault that occur.
    pub(crate) kinds: Kinds,
    /// The kinds that would occur if nothing was taken away: the next fault is drawn from these.
    pub(crate) drawn: Kinds,
    /// Instances of each node; the first nodes are managers.
    pub(crate) nodes: Vec<u32>,
    /// Number of managers among the nodes; and of nodes that join only later.
    pub(crate) managers: usize,
    pub(crate) late: usize,
    /// Number of nodes in a rack.
    pub(crate) rack: u32,
    /// Keyspaces of single operations, then those of transactions.
    pub(crate) keyspaces: Vec<PlannedKeyspace>,
    /// Fault windows, in which clients are busy and faults begin; between them little happens.
    pub(crate) fault_windows: Vec<(Time, Time)>,
    /// In some runs, between two fault windows: a time in which all clients are paused and sessions
    /// expire.
    pub(crate) client_pause: Option<(Time, Time)>,
    /// When all faults end.
    pub(crate) faults_end: Time,
    pub(crate) clients: usize,
    pub(crate) depth: u64,
    pub(crate) think_us: u64,
    pub(crate) is_hot: bool,
    pub(crate) arrival_delay_us_max: u64,
    /// Between clients and instances.
    pub(crate) network: NetworkFaults,
    pub(crate) peers: PeerFaults,
    /// Mean time between two faults of any kind within a fault window.
    pub(crate) fault_every_us: u64,
    /// The longest downtime of a process.
    pub(crate) down_us: u64,
    pub(crate) network_cut_us: u64,
    pub(crate) pause_us: u64,
    pub(crate) interval_ms: u32,
    pub(crate) engine: EngineOptions,
    pub(crate) batches: bool,
    pub(crate) compresses: bool,
    pub(crate) traits: ClientTraits,
    pub(crate) large_values: bool,
    pub(crate) expires: bool,
    pub(crate) impatient: bool,
    /// How long a node is down before its copies are made again.
    pub(crate) replace_after_ms: u64,
    pub(crate) log_entries_max: usize,
}

/// What clients do in some runs only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientTraits {
    /// Every other client names no epoch of the partitions that it requests.
    pub(crate) names_no_epoch: bool,
    /// Clients truncate the plain blob in steps, and some of them are gone amid.
    pub(crate) truncates_in_steps: bool,
}

/// A keyspace to be created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedKeyspace {
    pub(crate) durability: Durability,
    pub(crate) partitions: u32,
    pub(crate) replicas: u8,
    pub(crate) min_in_sync: u8,
    /// Those of an ordered keyspace, which has one region more.
    pub(crate) separators: Option<&'static [&'static [u8]]>,
}

impl PlannedKeyspace {
    fn is_ordered(&self) -> bool {
        self.separators.is_some()
    }

    /// Whether it is ordered, with several regions.
    fn has_regions(&self) -> bool {
        self.separators.is_some_and(|separators| !separators.is_empty())
    }
}

/// Faults of messages between nodes, in parts of a thousand, and the faults of some runs only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerFaults {
    pub(crate) delay_us: u64,
    pub(crate) jitter_us: u64,
    pub(crate) loss: u64,
    pub(crate) repeats: u64,
    pub(crate) late: u64,
    pub(crate) late_us: u64,
    /// The highest number of entries in a message of replication, if it is lower than usual.
    pub(crate) message_entries: Option<usize>,
    /// Of several such messages to one member only the first is sent, and the process is killed soon.
    pub(crate) sends_half: bool,
    /// Primaries are cut off from all but one of their in-sync replicas.
    pub(crate) cuts_pairs: bool,
    /// All members of a group die, and some of them again while it recovers.
    pub(crate) kills_twice: bool,
    /// The clocks of nodes advance in steps of so many milliseconds.
    pub(crate) clock_step_ms: u64,
}

/// The limits of a run: a scenario, and what shrinking has left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The kinds of fault that may occur.
    pub kinds: Kinds,
    /// The highest number of clients.
    pub clients: usize,
    /// The highest number of fault windows: the first ones are used.
    pub fault_windows: usize,
    /// Each instance has one log of all its partitions.
    pub shared_log: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { kinds: Kinds::ALL, clients: usize::MAX, fault_windows: usize::MAX, shared_log: false }
    }
}

/// The draws of a seed that some mutants require to become visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScenarioDraws {
    /// The kinds of fault that may occur.
    pub kinds: Kinds,
    /// Every other client names no epoch of the partitions that it requests.
    pub names_no_epoch: bool,
    /// Clients truncate the plain blob in steps, and some of them are gone amid.
    pub truncates_in_steps: bool,
    /// A keyspace of single operations is ordered.
    pub is_ordered: bool,
    /// It has several regions.
    pub has_regions: bool,
    /// A keyspace of single operations is ordered, and regions are split.
    pub splits_regions: bool,
    /// Atomic batches take several messages of replication.
    pub has_short_messages: bool,
    /// Of several messages to one member only the first is sent, and the process is killed soon.
    pub sends_half: bool,
    /// Primaries are cut off from all but one of their in-sync replicas.
    pub cuts_pairs: bool,
    /// All members of a group die, and some of them again while it recovers.
    pub kills_twice: bool,
    /// The clocks of nodes advance in steps of more than a millisecond.
    pub has_coarse_clocks: bool,
    /// Redis clients send commands over whole keyspaces.
    pub lists_keyspaces: bool,
    /// Keyspaces keep a history, and clients watch them.
    pub keeps_history: bool,
}

/// The draws of a seed, without a run.
#[must_use]
pub fn scenario_draws(seed: u64) -> ScenarioDraws {
    let mut streams = streams(seed);
    let scenario = ClusterScenario::new(&mut streams.scenario, Limits::default());
    let splits = region_splits_of(&streams, &scenario, Limits::default()).is_on();
    let own = &scenario.keyspaces[..scenario.keyspaces.len() - KEYSPACES.len()];
    ScenarioDraws {
        kinds: scenario.kinds,
        names_no_epoch: scenario.traits.names_no_epoch,
        truncates_in_steps: scenario.traits.truncates_in_steps,
        is_ordered: own.iter().any(PlannedKeyspace::is_ordered),
        has_regions: own.iter().any(PlannedKeyspace::has_regions),
        splits_regions: splits && own.iter().any(PlannedKeyspace::is_ordered),
        has_short_messages: scenario.peers.message_entries.is_some(),
        sends_half: scenario.peers.sends_half,
        cuts_pairs: scenario.peers.cuts_pairs,
        kills_twice: scenario.peers.kills_twice,
        has_coarse_clocks: scenario.peers.clock_step_ms > 1,
        lists_keyspaces: scenario.has(FaultKind::RedisClients) && lists_keyspaces(&redis_random(&streams)),
        keeps_history: keeps_history(seed),
    }
}

/// The random numbers of Redis clients.
pub(super) fn redis_random(streams: &Streams) -> Random {
    streams.workload.fork(5)
}

/// The stream that draws whether Redis clients send commands over whole keyspaces, and which.
pub(super) const LISTINGS_FORK: u64 = 62;

/// Whether they send such commands: in half of the runs with Redis clients.
pub(super) fn lists_keyspaces(redis: &Random) -> bool {
    redis.fork(LISTINGS_FORK).chance(1, 2)
}

/// The splits of regions of a run.
pub(super) fn region_splits_of(
    streams: &Streams,
    scenario: &ClusterScenario,
    limits: Limits,
) -> RegionSplits {
    let (may_split, splits) = (limits.kinds.has(FaultKind::Splits), scenario.has(FaultKind::Splits));
    RegionSplits::new(streams.workload.fork(6), (may_split, splits), region_keys())
}

/// The random streams of a cluster, independent of those of a single node.
pub(crate) fn streams(seed: u64) -> Streams {
    Streams::new(seed ^ 0xC1u64 << 56)
}

impl ClusterScenario {
    /// Draws everything, whatever the limits: what they take away shifts nothing else.
    pub(crate) fn new(random: &mut Random, limits: Limits) -> Self {
        let mut kinds = Kinds::NONE;
        // They shift everything else: seeds without them stay as they are.
        let has_redis = random.fork(REDIS_FORK).chance(1, 4);
        let mut crash_points = random.fork(CRASH_POINTS_FORK);
        let has_crash_points = crash_points.chance(2, 3);
        let has_breaks = random.fork(BREAKS_FORK).chance(1, 4);
        let mut order = random.fork(ORDER_FORK);
        let mut short_messages = random.fork(SHORT_MESSAGES_FORK);
        let has_short_messages = short_messages.chance(1, 6) && CAN_BREAK_INVARIANTS;
        let message_entries = has_short_messages.then(|| short_messages.between(1, 3) as usize);
        let sends_half = has_short_messages && random.fork(HALVES_FORK).chance(1, 2);
        let cuts_pairs = random.fork(PAIR_CUTS_FORK).chance(1, 6);
        let kills_twice = random.fork(DOUBLE_DEATHS_FORK).chance(1, 6);
        let mut coarse = random.fork(COARSE_CLOCKS_FORK);
        let clock_step_ms = if coarse.chance(1, 6) { *coarse.pick(&CLOCK_STEPS_MS) } else { 1 };
        let truncates_in_steps = random.fork(TRUNCATIONS_FORK).chance(1, 6);
        for kind in FaultKind::ALL.into_iter().filter(|kind| !DRAWN_APART.contains(kind)) {
            // Most bugs show only when a node is cut off or gone.
            let chance = match kind {
                FaultKind::Cuts | FaultKind::Kills | FaultKind::PowerLosses => 2,
                _ => 1,
            };
            if random.chance(chance, 3) {
                kinds = kinds.with(kind);
            }
        }
        // A sleep costs as much time as several other runs, and affects mostly the requests after
        // it.
        if random.fork(1).chance(1, 10) {
            kinds = kinds.with(FaultKind::Sleeps).with(FaultKind::RepeatedRequests);
        }
        // This kind needs others to query the state of a dead coordinator's transactions before its
        // client retries, and the answer to arrive twice.
        if random.fork(2).chance(1, 4) {
            kinds = kinds.with(FaultKind::Kills).with(FaultKind::ClientPauses).with(FaultKind::Repeats);
        }
        if has_redis {
            kinds = kinds.with(FaultKind::RedisClients);
        }
        if has_crash_points {
            kinds = kinds.with(FaultKind::CrashPoints);
        }
        if has_breaks && CAN_BREAK_INVARIANTS {
            kinds = kinds.with(FaultKind::BrokenInvariants);
        }
        let (drawn, kinds) = (kinds, kinds.and(limits.kinds));
        let nodes = random.between(3, 7) as usize;
        let instances = (0..7).map(|_| 1 + u32::from(random.chance(1, 4))).collect::<Vec<u32>>();
        let managers = *random.pick(&[1, 3, 3, 3, 5]);
        let late = random.between(1, 2) as usize;
        let late = if kinds.has(FaultKind::Joins) && nodes > 3 { late.min(nodes - 3) } else { 0 };
        let managers = if managers > nodes - late { 3 } else { managers };
        let rack = *random.pick(&[1, 1, 2]);
        let interval_ms = *random.pick(&[20, 100, 500]);
        let mut keyspaces = keyspaces(random, interval_ms);
        if order.chance(1, 3) {
            let ordered = order.below(keyspaces.len() as u64) as usize;
            keyspaces[ordered].separators = Some(*order.pick(&SEPARATORS));
        }
        let mut apart = random.fork(3);
        let (mut windows, mut heal) = fault_windows(random, limits.fault_windows);
        let sleep = random.fork(2).between(CLIENT_PAUSE_US_MIN, CLIENT_PAUSE_US_MIN + 60 * SECOND);
        let sleep = if kinds.has(FaultKind::Sleeps) {
            make_room_for_pause(&mut windows, &mut heal, sleep)
        } else {
            None
        };
        let clients = random.between(3, 7) as usize;
        let depth = *random.pick(&[1, 2, 4]);
        let is_hot = random.chance(1, 2);
        let network = network(random, kinds);
        let peers = PeerFaults {
            message_entries,
            sends_half,
            cuts_pairs,
            kills_twice,
            clock_step_ms,
            ..peers(random, kinds)
        };
        let mut engine = engine_options(random);
        engine.shared_log = limits.shared_log.then_some(LogId([5; 16]));
        if kinds.has(FaultKind::CrashPoints) {
            engine.check_after_bytes = *crash_points.pick(&CHECKS_AFTER_BYTES);
        }
        let mut transactional = transactional(&mut apart, interval_ms, engine.memory_bytes);
        if order.chance(1, 4) {
            for keyspace in &mut transactional {
                keyspace.separators = Some(*order.pick(&SEPARATORS_OF_TRANSACTIONS));
            }
        }
        keyspaces.extend(transactional);
        // Only splits make it visible.
        let has_nameless = kinds.has(FaultKind::Splits) && random.fork(4).chance(1, 2);
        ClusterScenario {
            kinds,
            drawn,
            nodes: instances[..nodes].to_vec(),
            managers,
            late,
            rack,
            keyspaces,
            fault_windows: windows,
            client_pause: sleep,
            faults_end: heal,
            clients: clients.min(limits.clients),
            depth,
            think_us: clients as u64 * depth * SECOND / CLUSTER_CALLS_PER_SECOND,
            is_hot,
            arrival_delay_us_max: *random.pick(&[30, 500, 3 * MS]),
            network,
            peers,
            fault_every_us: *random.pick(&[200 * MS, 500 * MS, 1_200 * MS]),
            down_us: *random.pick(&[50 * MS, SECOND, 5 * SECOND, 30 * SECOND]),
            network_cut_us: *random.pick(&[500 * MS, 3 * SECOND, 8 * SECOND]),
            pause_us: *random.pick(&[100 * MS, SECOND, 4 * SECOND]),
            interval_ms,
            engine,
            batches: random.chance(1, 2),
            compresses: random.chance(1, 4),
            traits: ClientTraits { names_no_epoch: has_nameless, truncates_in_steps },
            large_values: random.chance(1, 4),
            expires: random.chance(1, 3),
            impatient: random.chance(1, 4),
            replace_after_ms: *random.pick(&[1_000, 4_000, 12_000]),
            log_entries_max: *random.pick(&[32, 256, 1024]),
        }
    }

    /// Whether a fault of this kind occurs in this run.
    pub(crate) fn has(&self, kind: FaultKind) -> bool {
        self.kinds.has(kind)
    }

    /// The name of a keyspace, by its place among all.
    pub(crate) fn keyspace_name(&self, at: usize) -> String {
        match at.checked_sub(self.keyspaces.len() - KEYSPACES.len()) {
            Some(at) => KEYSPACES[at].to_owned(),
            None => format!("keyspace-{at}"),
        }
    }

    /// Whether a fault window is open at this time.
    pub(crate) fn is_in_fault_window(&self, now: Time) -> bool {
        self.fault_windows.iter().any(|(from, to)| (*from..*to).contains(&now))
    }

    /// When the next fault window begins, if there is one.
    pub(crate) fn next_fault_window(&self, now: Time) -> Option<Time> {
        self.fault_windows.iter().map(|(from, _)| *from).find(|from| *from >= now)
    }
}

/// Three keyspaces, of nearly all durabilities, with few partitions: an idle partition costs time
/// as well.
fn keyspaces(random: &mut Random, interval_ms: u32) -> Vec<PlannedKeyspace> {
    let interval = Durability::Interval { ms: interval_ms };
    let third = *random.pick(&[Durability::Memory, interval, Durability::Sync]);
    [Durability::Sync, interval, third]
        .into_iter()
        .map(|durability| {
            let (replicas, min_in_sync) =
                *random.pick(&[(3, 2), (3, 2), (3, 3), (3, 3), (2, 2), (4, 3), (2, 1), (1, 1)]);
            let partitions = *random.pick(&[1, 1, 2]);
            PlannedKeyspace { durability, partitions, replicas, min_in_sync, separators: None }
        })
        .collect()
}

/// The two keyspaces of transactions. One loses nothing. In the other, only what came before a loss
/// can be checked. It is kept in memory only where there is enough: a decided transaction that
/// finds no space keeps its intents for ever.
fn transactional(random: &mut Random, interval_ms: u32, memory_bytes: u64) -> [PlannedKeyspace; 2] {
    let interval = Durability::Interval { ms: interval_ms };
    let second = *random.pick(&[Durability::Sync, Durability::Sync, Durability::Memory, interval]);
    let is_tight = second == Durability::Memory && memory_bytes < MEMORY_BYTES_MIN;
    let second = if is_tight { interval } else { second };
    let mut kept = |durability| {
        let (replicas, min_in_sync) = *random.pick(&[(3, 2), (3, 2), (3, 3), (2, 2), (2, 1), (1, 1)]);
        let partitions = *random.pick(&[1, 2, 2]);
        PlannedKeyspace { durability, partitions, replicas, min_in_sync, separators: None }
    };
    [kept(Durability::Sync), kept(second)]
}

/// Fault windows of some seconds each, over two and a half minutes, and the time at which all
/// faults end. Groups become complete in the quiet period between two windows; a longer one shows
/// nothing more.
fn fault_windows(random: &mut Random, most: usize) -> (Vec<(Time, Time)>, Time) {
    let count = random.between(5, 8);
    let slice_us = 140 * SECOND / count;
    let windows = (0..count).map(|at| {
        let from = START.0 + 8 * SECOND + at * slice_us + random.below(slice_us / 3);
        let length_us = random.between(5 * SECOND, 11 * SECOND);
        (Time(from), Time(from + length_us))
    });
    let mut windows: Vec<(Time, Time)> = windows.collect();
    let is_whole = most >= windows.len();
    windows.truncate(most);
    let heal = match (is_whole, windows.last()) {
        (true, _) | (_, None) => START.after_us(160 * SECOND),
        (false, Some((_, to))) => to.after_us(5 * SECOND),
    };
    (windows, heal)
}

/// Moves all but the first half of the fault windows back to make room for a sleep, if there are at
/// least two.
fn make_room_for_pause(windows: &mut [(Time, Time)], heal: &mut Time, sleep_us: u64) -> Option<(Time, Time)> {
    let (early, late) = windows.split_at_mut(windows.len() / 2);
    let from = early.last()?.1;
    for (begin, end) in late {
        (*begin, *end) = (begin.after_us(sleep_us), end.after_us(sleep_us));
    }
    *heal = heal.after_us(sleep_us);
    Some((from, from.after_us(sleep_us)))
}

fn network(random: &mut Random, kinds: Kinds) -> NetworkFaults {
    let (delay_us, jitter_us) = (random.between(20, 200), *random.pick(&[10, 200, 5 * MS]));
    let spike_us = *random.pick(&[50 * MS, 2 * SECOND]);
    let repeat_us = *random.pick(&[2 * MS, 200 * MS, 3 * SECOND]);
    let broken = kinds.has(FaultKind::BrokenConnections);
    let only = |on: bool, value| if on { value } else { 0 };
    NetworkFaults {
        delay_us,
        jitter_us,
        spike: only(kinds.has(FaultKind::Delays), 10),
        spike_us,
        breaks: only(broken, 4),
        half_open: only(broken, 2),
        refused: only(broken, 50),
        damage: only(broken && repeat_us == 2 * MS, 1),
        repeats: only(kinds.has(FaultKind::RepeatedRequests), 60),
        repeat_us,
        cut_off_every_us: 0,
        cut_off_us: 0,
    }
}

/// The variation of delays without reordering.
pub(super) const JITTER_US: u64 = 20;

fn peers(random: &mut Random, kinds: Kinds) -> PeerFaults {
    // The longer messages take, the more is in progress when a fault strikes.
    let (delay_us, jitter_us) = (*random.pick(&[50, 300, 3 * MS, 10 * MS]), *random.pick(&[20, 300, 3 * MS]));
    let (loss, repeats, late) = (*random.pick(&[5, 40]), *random.pick(&[10, 60]), *random.pick(&[5, 30]));
    let late_us = *random.pick(&[60 * MS, 700 * MS, 2 * SECOND]);
    let only = |kind, value| if kinds.has(kind) { value } else { 0 };
    PeerFaults {
        delay_us,
        jitter_us: if kinds.has(FaultKind::Reordering) { jitter_us } else { JITTER_US },
        loss: only(FaultKind::Loss, loss),
        repeats: only(FaultKind::Repeats, repeats),
        late: only(FaultKind::Delays, late),
        late_us,
        message_entries: None,
        sends_half: false,
        cuts_pairs: false,
        kills_twice: false,
        clock_step_ms: 1,
    }
}

/// Small files and little memory, so that a short run seals segments, compacts them and takes
/// checkpoints.
fn engine_options(random: &mut Random) -> EngineOptions {
    EngineOptions {
        memory_bytes: *random.pick(&[1 << 20, 8 << 20]),
        segment_bytes: *random.pick(&[4 << 10, 16 << 10, 64 << 10]),
        journal_file_bytes: *random.pick(&[4 << 10, 64 << 10]),
        checkpoint_tail_bytes: *random.pick(&[4 << 10, 64 << 10]),
        dead_percent_max: *random.pick(&[1, 20, 50]),
        collect_every_ms: 300,
        disk_reserve_bytes: 0,
        ..EngineOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::SimulatedCluster;
    use crate::trace::LineRetention;

    #[test]
    fn reported_draws_of_seed_match_its_run() {
        let (mut with, mut without) = (0, 0);
        for seed in 0..40 {
            let (drawn, cluster) = (
                scenario_draws(seed),
                SimulatedCluster::new(seed, LineRetention::Nothing, Limits::default()),
            );
            assert_eq!(drawn.kinds, cluster.scenario.kinds);
            assert_eq!(drawn.names_no_epoch, cluster.scenario.traits.names_no_epoch);
            assert!(!drawn.names_no_epoch || drawn.kinds.has(FaultKind::Splits), "it shows by splits alone");
            *(if drawn.names_no_epoch { &mut with } else { &mut without }) += 1;
        }
        assert!(with > 0 && without > 0, "{with} with, {without} without");
    }
}
