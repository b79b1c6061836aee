//! Any bytes as a segment of a shared log: they are read to their end without a panic, and a log recovers from them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::engine_log::run(bytes));
