//! Any bytes as a message between agents: refused, or read into what is written and read back the same; and an agent that
//! receives them, alone or after a few others, goes on.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::agent_message::run(bytes));
