//! Any bytes as the manifest, the header of a part, and an entry of a backup: refused, or read into what is written the same;
//! behind checksums that are right too, else no change would get past them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::backup::run(bytes));
