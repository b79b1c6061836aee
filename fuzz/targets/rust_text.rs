//! Splitting Rust text into code and comments: any text is accepted, nothing moves, and nothing is in both.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::rust_text::run(bytes));
