//! Any bytes as what comes on a connection: refused, or decoded into a message that can be gone through.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::wire_frame::run(bytes));
