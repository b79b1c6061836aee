//! Any bytes as a control request and as the answer to one: refused, or read into what is written and read back the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::wire_admin::run(bytes));
