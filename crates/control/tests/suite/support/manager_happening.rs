//! What happens at some time in the simulation of managers.

use zerohop_control::command::{CommandRequest, ManagerId};
use zerohop_control::manager::RequestAnswer;

pub(super) enum ManagerHappening {
    Tick {
        slot: usize,
        life: u64,
    },
    Message {
        to: ManagerId,
        from: ManagerId,
        bytes: Vec<u8>,
    },
    Synced {
        slot: usize,
        life: u64,
        number: u64,
    },
    Answer {
        client: usize,
        token: u64,
        answer: RequestAnswer,
    },
    Ask {
        slot: usize,
        client: usize,
        token: u64,
        request: CommandRequest,
    },
    /// The turn tells the newest of a client's alarms from those before it.
    Client {
        client: usize,
        turn: u64,
    },
    Fault,
    Start {
        slot: usize,
    },
    Heal,
}
