//! Any bytes from a client of Redis: decoded, executed over records in memory, some of them in partitions that answer
//! late, and replied to. The first byte says in which pieces they come, the second which partitions are away.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::resp_command::run(bytes));
