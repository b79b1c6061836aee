//! Any bytes as a snapshot of the control group's state: refused, or read into what is written and read back the same, and
//! takes commands.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::control_state::run(bytes));
