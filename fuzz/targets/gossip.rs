//! Any bytes as datagrams of gossip: whoever hears them goes on.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::gossip::run(bytes));
