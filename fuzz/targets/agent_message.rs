//! Any bytes as a message between agents: refused, or read into what is written and read back the same; and an agent that
//! is told them, alone or with a few before them, goes on.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::agent_message::run(bytes));
