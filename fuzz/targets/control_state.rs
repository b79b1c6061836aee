//! Any bytes as a snapshot of the control group's state: refused, or read into what is written and read back the same, and
//! takes commands.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zerohop_control::command::{Command, ManagerInfo, Request, RequestId};
use zerohop_control::state::State;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut state) = State::decode(bytes) else { return };
    assert!(State::decode(&state.encode()).expect("was encoded") == state);
    let managers: Vec<ManagerInfo> = state.managers().to_vec();
    let command = Command::SetManagers(managers);
    let request = Request { id: RequestId { origin: 1, number: 1 }, after: state.mark(), command };
    state.apply(&request);
});
