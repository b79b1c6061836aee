//! Any bytes as a snapshot of the control group's state: refused, or read into what is written and read back the same, and
//! takes commands.

use zerohop_control::command::{Command, ManagerInfo, Request, RequestId};
use zerohop_control::state::State;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let Ok(mut state) = State::decode(bytes) else { return };
    assert!(State::decode(&state.encode()).expect("was encoded") == state);
    let managers: Vec<ManagerInfo> = state.managers().to_vec();
    let command = Command::SetManagers(managers);
    let request = Request { id: RequestId { origin: 1, number: 1 }, after: state.mark(), command };
    state.apply(&request);
}
