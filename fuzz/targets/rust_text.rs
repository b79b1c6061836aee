//! Splitting Rust text into code and comments: any text is taken, nothing moves, and nothing is told twice.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::rust_text::run(bytes));
