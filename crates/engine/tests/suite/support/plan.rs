//! The parameters of one seed.

use zerohop_base::random::Random;
use zerohop_engine::log::shared::format::LogId;
use zerohop_engine::{Durability, EngineOptions};

/// Options, sizes and faults of one seed.
pub struct SeedPlan {
    pub options: EngineOptions,
    /// The durability of each partition, and whether its entries come as in a replica group.
    pub partitions: Vec<(Durability, bool)>,
    pub keys: u64,
    pub steps: u64,
    pub crashes: bool,
    /// Power cuts in the middle of calls.
    pub cuts_power: bool,
    pub failures: bool,
    pub fills_disk: bool,
    pub horizons: bool,
    /// Values of some KiB, so that maintenance compacts and takes checkpoints by itself.
    pub bulk: bool,
    /// Payloads above 64 KiB.
    pub large: bool,
    /// Epochs and timestamps with larger steps than one segment can encode.
    pub jumps: bool,
    pub corruption: bool,
    /// More maintenance, checkpoints, truncations and crashes for each entry, and crashes in quick
    /// succession.
    pub fierce: bool,
    /// Entries have information for an upper layer that their records do not have.
    pub has_state_in_log: bool,
    /// Partitions are split.
    pub splits: bool,
    /// Every other key names a chunk.
    pub chunks: bool,
}

/// The id of the log of an instance.
pub const LOG: LogId = LogId(*b"a log for a seed");

impl SeedPlan {
    /// The same over one log of all partitions, which is not repaired.
    pub fn over_shared_log(mut self) -> SeedPlan {
        self.options.shared_log = Some(LOG);
        self.corruption = false;
        self
    }

    /// Whether all partitions are in one log.
    pub fn is_shared(&self) -> bool {
        self.options.shared_log.is_some()
    }

    pub fn of(random: &mut Random) -> SeedPlan {
        let one_of =
            |random: &mut Random, choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let mut partitions = Vec::new();
        for _ in 0..1 + random.below(4) {
            let durability = match random.below(8) {
                0 => Durability::Memory,
                1..=4 => Durability::Sync,
                _ => Durability::DEFAULT,
            };
            partitions.push((durability, random.chance(1, 2)));
        }
        let options = EngineOptions {
            memory_bytes: one_of(random, &[0, 100 << 10, 1 << 20]),
            segment_bytes: one_of(random, &[4 << 10, 8 << 10, 16 << 10, 64 << 10]),
            journal_file_bytes: one_of(random, &[4 << 10, 16 << 10, 64 << 10]),
            checkpoint_tail_bytes: 0,
            dead_percent_max: one_of(random, &[1, 20, 50]),
            dead_percent_bound: one_of(random, &[1, 50, 100]),
            dead_bytes_allowed: 0,
            collect_every_ms: 300,
            disk_reserve_bytes: 0,
            starts_checkpoints: random.chance(3, 4),
            journal_from_due: one_of(random, &[1, 1, 2, 4]) as usize,
            ..EngineOptions::default()
        };
        let fierce = random.chance(1, 2);
        SeedPlan {
            has_state_in_log: !options.starts_checkpoints && random.chance(1, 2),
            options,
            partitions,
            keys: one_of(random, &[1, 4, 12, 40]),
            steps: 50 + random.below(if fierce { 500 } else { 200 }),
            crashes: random.chance(4, 5),
            cuts_power: random.chance(1, if fierce { 2 } else { 3 }),
            failures: random.chance(1, 4),
            fills_disk: random.chance(1, 6),
            horizons: random.chance(1, 3),
            large: random.chance(1, 4),
            bulk: random.chance(1, 4),
            jumps: random.chance(1, 8),
            corruption: random.chance(1, 4),
            fierce,
            splits: random.chance(1, 2),
            chunks: random.chance(1, 2),
        }
    }
}
