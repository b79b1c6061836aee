//! Any bytes as a node's state file: refused, or decoded into what encodes to the same bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::node_state::run(bytes));
