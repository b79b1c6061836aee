//! The scenario of one seed: the sizes, and the faults in random subsets, so that a fault that
//! would hide another is absent from half of the seeds.

use zerohop_base::random::Random;
use zerohop_engine::EngineOptions;

use crate::limits::CALLS_PER_SECOND_MAX;
use crate::streams::Draw;

/// Everything that is drawn before a run begins. Times are in microseconds; a mean of zero means
/// never.
#[derive(Clone, Debug)]
pub(crate) struct NodeScenario {
    pub(crate) clients: usize,
    pub(crate) instances: u32,
    /// Open calls of a client.
    pub(crate) depth: u64,
    /// Rest of a client between two calls.
    pub(crate) think_us: u64,
    /// The longest delay before an instance handles arrivals: it handles all of them together.
    pub(crate) arrival_delay_us_max: u64,
    /// Whether most calls use two records.
    pub(crate) is_hot: bool,
    /// Period of calls that come together; zero: each comes by itself.
    pub(crate) burst_us: u64,
    /// Length of a period without requests in the middle of the faults: longer than a session is
    /// remembered.
    pub(crate) client_pause_us: u64,
    /// Length of the period with faults.
    pub(crate) faults_us: u64,
    pub(crate) network: NetworkFaults,
    pub(crate) node: NodeFaults,
    pub(crate) disk: DiskFaults,
    pub(crate) client: ClientFaults,
    /// Mean time between two changes of the keyspaces.
    pub(crate) alter_every_us: u64,
    pub(crate) split_every_us: u64,
    pub(crate) interval_ms: u32,
    pub(crate) engine: EngineOptions,
    /// Whether calls may be collected into batches.
    pub(crate) batches: bool,
    /// Whether frames are compressed.
    pub(crate) compresses: bool,
    /// Whether some values are large.
    pub(crate) large_values: bool,
    /// Whether some records expire.
    pub(crate) expires: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkFaults {
    /// Delay of a piece: the lowest, and the highest addition to it.
    pub(crate) delay_us: u64,
    pub(crate) jitter_us: u64,
    /// Pieces that are delayed by up to `spike_us` more, in parts of a thousand.
    pub(crate) spike: u64,
    pub(crate) spike_us: u64,
    /// Sends that break the connection, in parts of a thousand.
    pub(crate) breaks: u64,
    /// Sends after which bytes vanish without notice, in parts of a thousand.
    pub(crate) half_open: u64,
    /// Connections that are refused, in parts of a thousand.
    pub(crate) refused: u64,
    /// Pieces with an inverted bit, in parts of a thousand.
    pub(crate) damage: u64,
    /// Frames with writes of which a copy arrives over another connection, in parts of a thousand.
    pub(crate) repeats: u64,
    /// The longest time between a frame and its copy.
    pub(crate) repeat_us: u64,
    /// Mean time between two periods in which nothing passes between a client and the node.
    pub(crate) cut_off_every_us: u64,
    pub(crate) cut_off_us: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeFaults {
    pub(crate) crash_every_us: u64,
    pub(crate) stop_every_us: u64,
    pub(crate) down_us: u64,
    pub(crate) pause_every_us: u64,
    pub(crate) pause_us: u64,
    /// Whether its clock runs unevenly and jumps.
    pub(crate) wild_clock: bool,
    /// Whether power may be lost in the middle of an instance's turn.
    pub(crate) cuts_power: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskFaults {
    /// Mean time between two periods of disk trouble.
    pub(crate) disk_fault_every_us: u64,
    pub(crate) disk_fault_us: u64,
    pub(crate) fails: bool,
    pub(crate) fills_disk: bool,
    pub(crate) slow: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientFaults {
    pub(crate) pause_every_us: u64,
    pub(crate) pause_us: u64,
    /// Mean time between deaths of clients; another begins in the place of each.
    pub(crate) dies_every_us: u64,
    /// Whether deadlines may be shorter than the time to an answer.
    pub(crate) impatient: bool,
}

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

impl NodeScenario {
    pub(crate) fn new(random: &mut Random) -> Self {
        let mut some = |out_of: u64, value: u64| if random.chance(1, out_of) { value } else { 0 };
        let crash_every_us = some(2, 2 * SECOND) / some(3, 5).max(1);
        let stop_every_us = some(4, 6 * SECOND);
        let pause_every_us = some(3, 2 * SECOND);
        let trouble_every_us = some(3, 3 * SECOND);
        let cut_off_every_us = some(3, 3 * SECOND);
        let client_pause_every_us = some(3, 3 * SECOND);
        let dies_every_us = some(4, 5 * SECOND);
        let alter_every_us = some(2, 2 * SECOND);
        let split_every_us = some(2, 3 * SECOND);
        let (spike, breaks, half_open) = (some(3, 10), some(2, 5), some(4, 2));
        let (refused, damage, repeats) = (some(3, 100), some(6, 1), some(2, 50));
        let sleep_us = if random.chance(1, 8) { random.between(650, 900) * SECOND } else { 0 };
        let network = NetworkFaults {
            delay_us: random.between(20, 200),
            jitter_us: *random.pick(&[10, 200, 5 * MS]),
            spike,
            spike_us: *random.pick(&[50 * MS, 2 * SECOND]),
            breaks,
            half_open,
            refused,
            damage,
            // Copies must arrive late enough to meet expired sessions.
            repeats: if sleep_us > 0 { 200 } else { repeats },
            repeat_us: *random.pick(&[2 * MS, 200 * MS, 3 * SECOND]),
            cut_off_every_us,
            cut_off_us: *random.pick(&[100 * MS, 3 * SECOND]),
        };
        let node = NodeFaults {
            crash_every_us,
            stop_every_us,
            down_us: *random.pick(&[10 * MS, 500 * MS, 2 * SECOND]),
            pause_every_us,
            pause_us: *random.pick(&[50 * MS, SECOND, 3 * SECOND]),
            wild_clock: random.chance(1, 3),
            cuts_power: random.chance(1, 2),
        };
        let disk = DiskFaults {
            disk_fault_every_us: trouble_every_us,
            disk_fault_us: *random.pick(&[50 * MS, 500 * MS]),
            fails: random.chance(1, 2),
            fills_disk: random.chance(1, 2),
            slow: random.chance(1, 2),
        };
        let client = ClientFaults {
            pause_every_us: client_pause_every_us,
            pause_us: *random.pick(&[100 * MS, 2 * SECOND]),
            dies_every_us,
            impatient: random.chance(1, 4),
        };
        let (clients, depth) = (random.between(2, 5), *random.pick(&[1, 2, 4, 12]));
        let think_us = *random.pick(&[5 * MS, 20 * MS, 60 * MS]);
        Self {
            clients: clients as usize,
            instances: random.between(1, 3) as u32,
            depth,
            // A run with more calls is not worth its time.
            think_us: think_us.max(clients * depth * SECOND / CALLS_PER_SECOND_MAX),
            arrival_delay_us_max: *random.pick(&[30, 500, 5 * MS]),
            is_hot: random.chance(1, 3),
            burst_us: *random.pick(&[0, 20 * MS, 100 * MS]),
            client_pause_us: sleep_us,
            faults_us: random.between(4 * SECOND, 12 * SECOND),
            network,
            node,
            disk,
            client,
            alter_every_us,
            split_every_us,
            interval_ms: *random.pick(&[20, 100, 500]),
            engine: engine_options(random),
            batches: random.chance(1, 2),
            compresses: random.chance(1, 4),
            large_values: random.chance(1, 3),
            expires: random.chance(1, 3),
        }
    }
}

/// Small files and little memory, so that a short run seals segments, compacts them and takes
/// checkpoints.
fn engine_options(random: &mut Random) -> EngineOptions {
    EngineOptions {
        memory_bytes: *random.pick(&[100 << 10, 1 << 20, 8 << 20]),
        segment_bytes: *random.pick(&[4 << 10, 16 << 10, 64 << 10]),
        journal_file_bytes: *random.pick(&[4 << 10, 64 << 10]),
        checkpoint_tail_bytes: *random.pick(&[4 << 10, 64 << 10]),
        dead_percent_max: *random.pick(&[1, 20, 50]),
        collect_every_ms: 300,
        disk_reserve_bytes: 0,
        ..EngineOptions::default()
    }
}
