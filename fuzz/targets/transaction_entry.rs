//! Any bytes as a transaction's entry: refused, or read into what is written as the same bytes; one of the version before, into
//! what is read as the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::transaction_entry::run(bytes));
