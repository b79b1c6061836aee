//! Any bytes as datagrams of gossip: a node that receives them goes on.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::gossip::run(bytes));
