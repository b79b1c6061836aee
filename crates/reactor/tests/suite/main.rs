//! The reactor over real sockets of this machine.
//!
//! No test asserts how long something takes, because machines may be slow. Tests wait for a state
//! (`waiting`), and give up after minutes.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests, which play clients")]

mod client;
#[path = "../../../server/tests/suite/support/give_up.rs"]
mod give_up;
mod sockets;
#[path = "../../../server/tests/suite/support/waiting.rs"]
mod waiting;

use std::net::SocketAddr;
use std::thread::JoinHandle;

use crate::waiting::wait_for;
use zerohop_reactor::{
    ClockSample, ConnectionId, Flow, Limits, Maintenance, MioDriver, Reactor, ReactorCounters,
    ReactorMailbox, Replies, RequestToken, Service,
};
use zerohop_wire::ids::{PartitionEpoch, Timestamp};
use zerohop_wire::messages::{Hello, HelloAck, Outcome, Pong, RecordRead};
use zerohop_wire::{Envelope, Failure, Message};

/// Answers a lookup with its key, repeated; a lookup of `later` only when another message comes.
struct SuiteEcho {
    repeat: usize,
    waiting: Vec<(RequestToken, Vec<u8>)>,
    counters: std::sync::mpsc::Sender<(ReactorCounters, usize)>,
}

enum SuiteNotice {
    Count,
    AnswerAll,
    Stop,
}

/// A reactor on a thread of its own, ended when this is dropped.
struct ReactorThread {
    address: SocketAddr,
    mailbox: ReactorMailbox<SuiteNotice>,
    counters: std::sync::mpsc::Receiver<(ReactorCounters, usize)>,
    thread: Option<JoinHandle<()>>,
}

impl ReactorThread {
    fn start(repeat: usize, limits: Limits) -> Self {
        let driver = MioDriver::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = driver.local_address().unwrap();
        let (sender, counters) = std::sync::mpsc::channel();
        let service = SuiteEcho { repeat, waiting: Vec::new(), counters: sender };
        let (mut reactor, mailbox) = Reactor::new(driver, service, limits);
        let thread = std::thread::spawn(move || reactor.run().unwrap());
        ReactorThread { address, mailbox, counters, thread: Some(thread) }
    }

    /// The reactor's counters, and how many connections it has.
    fn count(&self) -> (ReactorCounters, usize) {
        self.mailbox.leave(SuiteNotice::Count).unwrap();
        self.counters.recv().unwrap()
    }

    /// Waits until the counters satisfy `holds`.
    fn until(&self, what: &str, holds: impl Fn(&ReactorCounters, usize) -> bool) {
        wait_for(what, || self.count(), |(counters, open)| holds(counters, *open));
    }
}

impl Drop for ReactorThread {
    fn drop(&mut self) {
        drop(self.mailbox.leave(SuiteNotice::Stop));
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the reactor panicked");
    }
}

impl SuiteEcho {
    fn answer(&self, token: RequestToken, key: &[u8], replies: &mut Replies<'_>) {
        let bytes = key.repeat(self.repeat);
        let outcome = Outcome::Value { version: Timestamp(1), length: bytes.len() as u64, bytes: &bytes };
        replies.answer(token, PartitionEpoch(9), &Message::Answer(Ok(outcome)));
    }

    fn answer_waiting(&mut self, replies: &mut Replies<'_>) {
        for (token, key) in std::mem::take(&mut self.waiting).into_iter().rev() {
            self.answer(token, &key, replies);
        }
    }
}

impl Service for SuiteEcho {
    type Notice = SuiteNotice;

    fn hello(
        &mut self,
        _: ConnectionId,
        _: &Hello<'_>,
        _: ClockSample,
    ) -> Result<HelloAck, Failure<'static>> {
        Ok(HelloAck::default())
    }

    fn request(
        &mut self,
        token: RequestToken,
        _: &Envelope,
        message: Message<'_>,
        now: ClockSample,
        replies: &mut Replies<'_>,
    ) {
        match message {
            Message::Read { read: RecordRead { key, .. }, .. } if key.starts_with(b"later") => {
                self.waiting.push((token, key.to_vec()));
            }
            Message::Read { read: RecordRead { key, .. }, .. } => self.answer(token, key, replies),
            _ => {
                let now = Timestamp::from_millis(now.unix_ms);
                replies.answer(token, PartitionEpoch(0), &Message::Pong(Pong { now, ..Pong::default() }));
            }
        }
    }

    fn notice(&mut self, notice: SuiteNotice, _: ClockSample, replies: &mut Replies<'_>) -> Flow {
        match notice {
            SuiteNotice::Count => {
                drop(self.counters.send((replies.counters().clone(), replies.connections())))
            }
            SuiteNotice::AnswerAll => self.answer_waiting(replies),
            SuiteNotice::Stop => return Flow::Stop,
        }
        Flow::Continue
    }

    fn next_deadline_ms(&self) -> Option<u64> {
        None
    }

    fn tick(&mut self, _: ClockSample, _: &mut Replies<'_>) {}

    fn end_of_batch(&mut self, _: ClockSample, _: &mut Replies<'_>) {}

    fn maintain(&mut self, _: ClockSample) -> Maintenance {
        Maintenance::Done
    }

    fn closed(&mut self, _: ConnectionId) {}

    fn stopping(&mut self, _: ClockSample, replies: &mut Replies<'_>) {
        self.answer_waiting(replies);
    }
}
