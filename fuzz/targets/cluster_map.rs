//! Any bytes as a cluster map and as a delta: refused, or decoded into what encodes to the same bytes; a map, which may have been
//! built from changes that undo each other, to bytes that are the same map.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::cluster_map::run(bytes));
