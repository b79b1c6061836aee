//! Any bytes as a staged list of items and as the parts of a transaction: refused, or read into what is written as the
//! same bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::transaction_items::run(bytes));
