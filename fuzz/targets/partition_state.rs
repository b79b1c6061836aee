//! Any bytes as the state in a checkpoint, with any bytes as log entries behind it: refused, or read and written back.
//!
//! The first byte is the length of the entry's payload, the second its kind and flags; the payload follows, and the rest
//! is the state.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::partition_state::run(bytes));
