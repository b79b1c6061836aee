//! Any bytes as the log of a manager: refused, or opened, and then some of them are good and time may pass.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::control_log::run(bytes));
