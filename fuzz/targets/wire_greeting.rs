//! Any bytes as what comes on a connection before a proof, on either side: no connection is authenticated, and no server is believed,
//! without knowing the secret.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suite_decoders::wire_greeting::run(bytes));
