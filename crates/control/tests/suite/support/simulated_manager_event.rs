//! The events in the simulation of managers.

use zerohop_control::command::{CommandRequest, ManagerId};
use zerohop_control::manager::RequestAnswer;

pub(super) enum SimulatedManagerEvent {
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
    Query {
        slot: usize,
        client: usize,
        token: u64,
        request: CommandRequest,
    },
    /// `turn` distinguishes the newest alarm of a client from earlier ones.
    Client {
        client: usize,
        turn: u64,
    },
    Fault,
    Start {
        slot: usize,
    },
    Heal,
    ReplaceLeader,
}
