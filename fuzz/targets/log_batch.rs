//! Any bytes as a batch of a log, as they are and behind a checksum that is right: refused, or read into as many records as the
//! batch says, and stored as the same bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::log_batch::run(bytes));
