//! Any bytes as a transaction's message: refused, or read into what is written as the same bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::transaction_message::run(bytes));
