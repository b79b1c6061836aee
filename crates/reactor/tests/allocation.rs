//! In the steady state a request costs the reactor no allocation.
#![allow(
    missing_docs,
    unsafe_code,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test that counts allocations and plays the clients"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use zerohop_reactor::{
    ClockSample, ConnectionId, Flow, Limits, Maintenance, MioDriver, Reactor, Replies, RequestToken, Service,
};
use zerohop_wire::ids::{MapEpoch, PartitionEpoch, RequestId, Timestamp};
use zerohop_wire::messages::{ClusterId, Hello, HelloAck, Outcome, Query, RecordRead};
use zerohop_wire::{Encoder, Envelope, Failure, Features, Message};

/// Counts allocations per thread.
struct CountingAllocator;

thread_local! {
    static TIMES: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TIMES.with(|times| times.set(times.get() + 1));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Answers at once with the key; on request, reports how often its thread has allocated.
struct AllocationEcho {
    allocated: Sender<u64>,
}

enum AllocationNotice {
    Count,
    /// Do nothing until the other end is dropped.
    Idle(Receiver<()>),
    Stop,
}

impl Service for AllocationEcho {
    type Notice = AllocationNotice;

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
        _: ClockSample,
        replies: &mut Replies<'_>,
    ) {
        let Message::Read { read: RecordRead { key, .. }, .. } = message else { panic!("{message:?}") };
        let outcome = Outcome::Value { version: Timestamp(1), length: key.len() as u64, bytes: key };
        replies.answer(token, PartitionEpoch(0), &Message::Answer(Ok(outcome)));
    }

    fn notice(&mut self, notice: AllocationNotice, _: ClockSample, _: &mut Replies<'_>) -> Flow {
        match notice {
            AllocationNotice::Idle(until) => drop(until.recv()),
            AllocationNotice::Count => drop(self.allocated.send(TIMES.with(Cell::get))),
            AllocationNotice::Stop => return Flow::Stop,
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

    fn stopping(&mut self, _: ClockSample, _: &mut Replies<'_>) {}
}

fn encoded(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let envelope = Envelope { request: RequestId(1), ..Envelope::default() };
    Encoder::newest_for(message).encode(&envelope, message, &mut out).unwrap();
    out
}

/// Sends requests on every connection, cut at an odd position, and reads the answers. `hold` blocks
/// the reactor until its result is dropped; then all connections are ready at once, each with half
/// a frame.
fn round(sockets: &mut [TcpStream], hold: impl Fn() -> Option<Sender<()>>, scratch: &mut Vec<u8>) {
    let request = encoded(&Message::Read {
        seen: Timestamp::ZERO,
        read: RecordRead { key: &[7; 132], query: Query::Lookup },
    });
    let all = request.repeat(REQUESTS);
    let (first, second) = all.split_at(all.len() / 2 + 13);
    for half in [first, second] {
        let hold_guard = hold();
        for socket in &mut *sockets {
            socket.write_all(half).unwrap();
        }
        drop(hold_guard);
    }
    for socket in sockets {
        scratch.resize(ANSWER_BYTES * REQUESTS, 0);
        socket.read_exact(scratch).unwrap();
    }
}

const REQUESTS: usize = 32;
const ROUNDS: u64 = 100;
const ANSWER_BYTES: usize = 48 + 24 + 132;

#[test]
fn steady_state_requests_allocate_no_memory() {
    let driver = MioDriver::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = driver.local_address().unwrap();
    let (sender, allocated) = channel();
    let (mut reactor, mailbox) = Reactor::new(driver, AllocationEcho { allocated: sender }, Limits::DEFAULT);
    let thread = std::thread::spawn(move || reactor.run().unwrap());
    let hello = encoded(&Message::Hello(Hello {
        version_min: zerohop_wire::limits::VERSION_MIN,
        version_max: zerohop_wire::limits::VERSION_MAX,
        features: Features(0),
        cluster: ClusterId::default(),
        map_epoch: MapEpoch(0),
        proof_method: 0,
        nonce: [0; 32],
        name: "",
    }));
    let mut sockets: Vec<TcpStream> = (0..32)
        .map(|_| {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_nodelay(true).unwrap();
            socket.write_all(&hello).unwrap();
            socket.read_exact(&mut [0; 48 + 128]).unwrap();
            socket
        })
        .collect();
    let count = || {
        mailbox.leave(AllocationNotice::Count).unwrap();
        allocated.recv().unwrap()
    };
    let mut scratch = Vec::new();
    // Largest batches first, so that buffers and lists reach their final size.
    let hold = || {
        let (guard, until) = channel();
        mailbox.leave(AllocationNotice::Idle(until)).unwrap();
        Some(guard)
    };
    for _ in 0..20 {
        round(&mut sockets, hold, &mut scratch);
    }
    for _ in 0..100 {
        round(&mut sockets, || None, &mut scratch);
    }
    let before = count();
    // Sending the first count may allocate; the second count shows how much.
    let counting = count() - before;
    let before = count();
    for _ in 0..ROUNDS {
        round(&mut sockets, || None, &mut scratch);
    }
    let during = count() - before;
    // Batch sizes depend on the machine, so a buffer may still grow now and then, more often on a
    // busy one. An allocation per request would be a hundred times this bound, one per batch of a
    // connection six times.
    assert!(
        during < counting + 10 * ROUNDS,
        "{during} allocations for 102,400 requests, of which {counting} for telling so"
    );
    mailbox.leave(AllocationNotice::Stop).unwrap();
    thread.join().unwrap();
}
