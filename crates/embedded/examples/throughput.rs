//! Throughput of the embedded store: inserts, lookups and removals with one calling thread and with eight, and `insert_many`.
//!
//! Prints one line for each, in calls per second. The argument is the number of calls of each (default 200,000).

#![expect(clippy::print_stdout, reason = "prints what it measures")]

use zerohop_embedded::{EmbeddedStore, StoreError, StoreOptions};
use zerohop_system::clock::Stopwatch;

/// The length of each value, in bytes.
const VALUE_BYTES: usize = 100;

fn key(n: u64) -> [u8; 16] {
    // Neighbours are in different partitions, and in no order.
    let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mixed);
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

type Call = fn(&EmbeddedStore, u64) -> Result<(), StoreError>;

fn measure(
    store: &EmbeddedStore,
    name: &str,
    threads: u64,
    calls: u64,
    call: Call,
) -> Result<(), StoreError> {
    let begun = Stopwatch::start();
    std::thread::scope(|scope| {
        let each = (0..threads).map(|thread| {
            let store = store.clone();
            scope.spawn(move || (thread..calls).step_by(threads as usize).try_for_each(|n| call(&store, n)))
        });
        let each: Vec<_> = each.collect();
        each.into_iter().try_for_each(|one| one.join().unwrap_or(Err(StoreError::Closed)))
    })?;
    println!("{name} {threads} {:.0}", calls as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> Result<(), StoreError> {
    let calls = std::env::args().nth(1).and_then(|calls| calls.parse().ok()).unwrap_or(200_000);
    let root = tempfile::tempdir()
        .map_err(|error| StoreError::System { operation: "making a folder", reason: error.to_string() })?;
    let store =
        EmbeddedStore::open_with(root.path(), &StoreOptions { instances: Some(2), ..Default::default() })?;
    let insert: Call = |store, n| store.insert(key(n), [7; VALUE_BYTES]);
    let lookup: Call = |store, n| store.lookup(key(n)).map(drop);
    let remove: Call = |store, n| store.remove(key(n)).map(drop);
    for threads in [1, 8] {
        measure(&store, "insert", threads, calls, insert)?;
        measure(&store, "lookup", threads, calls, lookup)?;
        measure(&store, "remove", threads, calls, remove)?;
    }
    let begun = Stopwatch::start();
    let records = (0..10 * calls).map(|n| (key(n), [7; VALUE_BYTES]));
    let count = store.insert_many(records)?;
    println!("insert_many 1 {:.0}", count as f64 / begun.elapsed().as_secs_f64());
    store.close()
}
