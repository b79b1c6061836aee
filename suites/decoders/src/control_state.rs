//! Any bytes as a snapshot of the control group's state: refused, or read into what is written and read back the same, and
//! takes commands.

use zerohop_control::command::{CommandRequest, ControlCommand, ManagerInfo, RequestId};
use zerohop_control::state::ControlState;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let Ok(mut state) = ControlState::decode(bytes) else { return };
    assert!(ControlState::decode(&state.encode()).expect("was encoded") == state);
    let managers: Vec<ManagerInfo> = state.managers().to_vec();
    let command = ControlCommand::SetManagers(managers);
    let request =
        CommandRequest { id: RequestId { origin: 1, number: 1 }, after: state.applied_count(), command };
    state.apply(&request);
}
