//! Any bytes as a checkpoint file: they are read to their end without a panic, and an engine opens on them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::engine_checkpoint::run(bytes));
