//! Any bytes as the history of changes that comes with a snapshot: refused, or read and written back.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::change_history::run(bytes));
