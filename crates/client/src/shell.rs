//! The client as a shell of the session's procedures: the driver's channel, the runtime's timers and tasks.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use zerohop_base::time::Time;
use zerohop_session::SessionRequest;
use zerohop_session::procedures::{BackgroundTask, BatchSender, BoxFuture, ProcedureShell, ReplySender};
use zerohop_wire::Failure;

use crate::driver::DriverCommand;

/// The commands of a driver and the clock of the procedures.
#[derive(Debug)]
pub(crate) struct DriverShell {
    commands: mpsc::UnboundedSender<DriverCommand>,
    start: Instant,
}

impl DriverShell {
    pub(crate) fn new(commands: mpsc::UnboundedSender<DriverCommand>) -> Self {
        Self { commands, start: Instant::now() }
    }

    fn send(&self, command: DriverCommand) {
        // If the driver has ended, the command is dropped with its senders, and the operations end with an error.
        drop(self.commands.send(command));
    }
}

impl ProcedureShell for DriverShell {
    fn submit(&self, request: SessionRequest, reply: ReplySender) {
        self.send(DriverCommand::One(request, reply));
    }

    fn submit_all(&self, requests: Vec<(SessionRequest, ReplySender)>) {
        self.send(DriverCommand::Many(requests));
    }

    fn submit_batch(&self, requests: Vec<Result<SessionRequest, Failure<'static>>>, results: BatchSender) {
        self.send(DriverCommand::Batch(requests, results));
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn sleep(&self, time: Duration) -> BoxFuture {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn(&self, task: BoxFuture) -> BackgroundTask {
        let task = tokio::spawn(task).abort_handle();
        BackgroundTask::stopped_by(move || task.abort())
    }

    fn random(&self) -> u64 {
        seed()
    }
}

/// A different number for every call.
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    #[expect(clippy::disallowed_methods, reason = "the shell is where randomness comes from")]
    let state = std::hash::RandomState::new();
    state.build_hasher().finish()
}
