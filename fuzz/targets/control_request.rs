//! Any bytes as a command for the control group and as the outcome of one: refused, or read into what is written and read
//! back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zerohop_control::command::{Outcome, Request};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    if let Ok(outcome) = Outcome::decode(bytes) {
        assert_eq!(Outcome::decode(&outcome.encode()), Ok(outcome));
    }
});
