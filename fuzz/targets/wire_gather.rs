//! Any bytes as a frame of several requests, and of several answers: refused, or gone through part by part; what was read is
//! written the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::wire_gather::run(bytes));
