//! Any bytes as a command for the control group, as an entry of its log, and as the outcome of a command: refused, or read
//! into what is written and read back the same.

use zerohop_control::command::{CommandOutcome, CommandRequest, Entry};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Ok(request) = CommandRequest::decode(bytes) {
        assert_eq!(CommandRequest::decode(&request.encode()), Ok(request));
    }
    if let Ok(entry) = Entry::decode(bytes) {
        assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
    }
    if let Ok(outcome) = CommandOutcome::decode(bytes) {
        assert_eq!(CommandOutcome::decode(&outcome.encode()), Ok(outcome));
    }
}
