//! Any bytes as a command for the control group and as the outcome of one: refused, or read into what is written and read
//! back the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::control_request::run(bytes));
