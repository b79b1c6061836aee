//! Any bytes as each record of objects, and as lifecycle rules: refused, or read into what is written as the same bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::object_record::run(bytes));
