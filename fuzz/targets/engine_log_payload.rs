//! Any bytes as the payload of a local entry of a shared log: what is read is what was written.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::engine_log_payload::run(bytes));
