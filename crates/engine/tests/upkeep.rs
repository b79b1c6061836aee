//! Upkeep under load, on a simulated disk: one call a batch must be enough, however large the batches.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::{Durability, Engine, EngineOptions, Kind, PartitionId, PartitionOptions};

#[test]
fn dead_space_stays_bounded_with_one_call_of_upkeep_a_batch_however_large_the_batches() {
    const KEYS: u64 = 20_000;
    for batch in [16, 256, 2048] {
        let options = EngineOptions {
            segment_bytes: 1 << 20,
            collect_every_ms: u64::MAX,
            disk_reserve_bytes: 0,
            ..EngineOptions::default()
        };
        let (mut engine, _) = Engine::open(SimulatedDisk::new(batch), options).expect("opens");
        // Only what is durable is rewritten: the last interval's writes come on top of any bound.
        let durability = Durability::Interval { ms: 10 };
        let partition_options = PartitionOptions { durability, index_seed: 7 };
        let p = engine.partition(PartitionId(1), partition_options).expect("opens");
        let mut greatest: f64 = 0.0;
        for n in 0..KEYS * 20 {
            // Every key is overwritten again and again: nothing but dead space comes.
            let key = (n % KEYS).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
            engine.write(p, Kind::Put, 0, n, &key, &[n as u8; 132]).expect("is accepted");
            if n.is_multiple_of(batch) {
                engine.maintain(n / 100).expect("is kept up");
                let log = engine.partition_stats(p).expect("is open").log;
                let live = log.bytes - log.dead_bytes - log.removal_bytes;
                if n > 2 * KEYS {
                    greatest = greatest.max(log.bytes as f64 / live as f64);
                }
            }
        }
        // Half dead is twice the live; what dies while a run is rewritten, and its copy, come on top.
        assert!(greatest < 3.0, "batches of {batch}: the log grew to {greatest:.1} times what lives");
    }
}
