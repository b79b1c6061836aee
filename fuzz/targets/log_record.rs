//! Any bytes as each record of a log's keyspace: refused, or read into what is written as the same bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::log_record::run(bytes));
