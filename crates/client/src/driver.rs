//! The task that executes the effects of a session: each round it collects all events, calls
//! `Session::step` once, and writes to each socket once.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};
use zerohop_base::time::Time;
use zerohop_busy_poll::BusyPoll;
use zerohop_session::{
    ConnectionId, ConnectionLoss, Session, SessionEffect, SessionError, SessionRequest, SessionSettings,
};
use zerohop_tls::{ClientTls, expired_of, fault_of};
use zerohop_wire::Failure;

use zerohop_session::procedures::{BatchSender, ReplySender};

use crate::batches::{BatchSlot, Batches};
use crate::socket::Socket;
use crate::wakers::ReadySockets;

/// One operation, or several that the caller has submitted together.
pub(crate) enum DriverCommand {
    One(SessionRequest, ReplySender),
    Many(Vec<(SessionRequest, ReplySender)>),
    /// Operations whose results the caller receives together, when all have ended. An operation that is not a valid request gets its failure as
    /// result.
    Batch(Vec<Result<SessionRequest, Failure<'static>>>, BatchSender),
}

/// The receiver of an operation's result.
enum ResultTarget {
    Caller(ReplySender),
    Batch(BatchSlot),
}

/// Maximum number of commands that the driver accepts before it serves the sockets.
const COMMANDS_MAX: usize = 1024;

/// Maximum number of reads from one socket before the driver serves the others.
const READS_MAX: usize = 8;

pub(crate) struct Driver {
    session: Session<ResultTarget>,
    batches: Batches,
    commands: mpsc::UnboundedReceiver<DriverCommand>,
    /// All handles are dropped: no more commands will arrive.
    ending: bool,
    sockets: Vec<Option<Socket>>,
    ready: Arc<ReadySockets>,
    ready_sockets: Vec<usize>,
    effects: Vec<SessionEffect<ResultTarget>>,
    timer: Pin<Box<Sleep>>,
    start: Instant,
    tls: Option<ClientTls>,
    busy_poll: BusyPoll,
    /// The time since which the driver has only been waiting for replies, and whether it sleeps instead of busy-polling.
    waiting: Option<(Instant, bool)>,
}

impl Driver {
    pub(crate) fn new(
        settings: SessionSettings,
        tls: Option<ClientTls>,
        commands: mpsc::UnboundedReceiver<DriverCommand>,
    ) -> Self {
        let start = Instant::now();
        Self {
            session: Session::new(settings),
            batches: Batches::default(),
            commands,
            ending: false,
            sockets: Vec::new(),
            ready: Arc::default(),
            ready_sockets: Vec::new(),
            effects: Vec::new(),
            timer: Box::pin(sleep_until(start)),
            start,
            tls,
            busy_poll: BusyPoll::default(),
            waiting: None,
        }
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Returns whether more commands may be waiting.
    fn handle_commands(&mut self, cx: &mut Context<'_>) -> bool {
        // All commands of the round share one timestamp: reading the clock for each would cost about as much as other steps of the operation.
        let now = self.now();
        for _ in 0..COMMANDS_MAX {
            let is_alone = self.session.outstanding() == 0;
            match self.commands.poll_recv(cx) {
                Poll::Ready(Some(DriverCommand::One(request, token))) => {
                    self.session.submit(now, request, ResultTarget::Caller(token));
                }
                Poll::Ready(Some(DriverCommand::Many(all))) => {
                    for (request, token) in all {
                        self.session.submit(now, request, ResultTarget::Caller(token));
                    }
                }
                Poll::Ready(Some(DriverCommand::Batch(all, whole))) => {
                    let slots = self.batches.begin(all.len(), whole);
                    for (request, slot) in all.into_iter().zip(slots) {
                        match request {
                            Ok(request) => self.session.submit(now, request, ResultTarget::Batch(slot)),
                            Err(failure) => self.batches.put(slot, Err(SessionError::Answer { failure })),
                        }
                    }
                }
                Poll::Ready(None) => {
                    self.ending = true;
                    return false;
                }
                Poll::Pending => return false,
            }
            self.busy_poll.record_arrivals(if is_alone { 1 } else { 2 });
        }
        true
    }

    /// Returns whether the socket may have more bytes to read.
    fn serve(&mut self, place: usize) -> bool {
        match self.advance(place) {
            Ok(more) => more,
            Err(error) => {
                self.lose(place, &error);
                false
            }
        }
    }

    fn advance(&mut self, place: usize) -> io::Result<bool> {
        let now = self.now();
        let Some(socket) = self.sockets.get_mut(place).and_then(Option::as_mut) else { return Ok(false) };
        if let Poll::Ready(opened) = socket.poll_open() {
            opened?;
            self.session.connected(now, socket.id);
        }
        socket.write()?;
        for _ in 0..READS_MAX {
            match socket.poll_read() {
                Poll::Pending => return Ok(false),
                Poll::Ready(read) => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    socket.need = self.session.received(now, socket.id, &mut socket.input);
                }
            }
        }
        Ok(true)
    }

    fn lose(&mut self, place: usize, error: &io::Error) {
        if let Some(socket) = self.sockets.get_mut(place).and_then(Option::take) {
            let lost =
                ConnectionLoss { kind: error.kind(), fault: fault_of(error), expired_s: expired_of(error) };
            self.session.disconnected(self.now(), socket.id, lost);
        }
    }

    /// Ends the wait for a socket and records how long it took.
    fn end_waiting(&mut self) {
        if let Some((since, sleeps)) = self.waiting.take() {
            self.busy_poll.waited(since.elapsed(), sleeps);
        }
    }

    /// Schedules another round with a poll of the sockets, for as long as busy-polling is worth it.
    fn schedule_poll(&mut self, cx: &mut Context<'_>) {
        if self.session.outstanding() == 0 {
            self.waiting = None;
            return;
        }
        let (since, sleeps) = self.waiting.get_or_insert_with(|| (Instant::now(), false));
        if *sleeps {
            return;
        }
        let looked = since.elapsed();
        *sleeps = looked >= self.busy_poll.window(None);
        if *sleeps {
            self.busy_poll.record_polled(looked);
        } else {
            // `yield_now` wakes this task after the runtime has polled the sockets; a direct wake would run the task before that.
            let _ = pin!(yield_now()).poll(cx);
        }
    }

    fn perform_effects(&mut self) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                SessionEffect::Connect { connection, address } => {
                    let place = connection.slot();
                    if place >= self.sockets.len() {
                        // The session's `connections_max` limits the number of positions.
                        self.sockets.resize_with(place + 1, || None);
                    }
                    let waker = self.ready.waker(place);
                    // The driver polls a new socket at once, and later whenever its waker fires.
                    waker.wake_by_ref();
                    self.sockets[place] = Some(Socket::open(connection, address, self.tls.as_ref(), waker));
                }
                SessionEffect::Send { connection, head, tail } => {
                    if let Some(socket) = self.socket(connection) {
                        socket.push(Bytes::from(head));
                        socket.push(tail);
                        self.ready_sockets.push(connection.slot());
                    }
                }
                SessionEffect::Close { connection } => {
                    if self.socket(connection).is_some() {
                        self.sockets[connection.slot()] = None;
                    }
                }
                // The caller may have dropped its receiver; the result is then discarded.
                SessionEffect::Complete { token: ResultTarget::Caller(token), result } => {
                    drop(token.send(result))
                }
                SessionEffect::Complete { token: ResultTarget::Batch(slot), result } => {
                    self.batches.put(slot, result)
                }
            }
        }
        self.effects = effects;
        // All effects are executed: each socket now writes once everything that it has queued.
        let mut places = std::mem::take(&mut self.ready_sockets);
        places.sort_unstable();
        places.dedup();
        for place in places.drain(..) {
            let written = self.sockets[place].as_mut().map_or(Ok(()), Socket::write);
            if let Err(error) = written {
                self.lose(place, &error);
            }
        }
        self.ready_sockets = places;
    }

    fn socket(&mut self, id: ConnectionId) -> Option<&mut Socket> {
        self.sockets.get_mut(id.slot())?.as_mut().filter(|socket| socket.id == id)
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let mut more = this.handle_commands(cx);
        let mut places = std::mem::take(&mut this.ready_sockets);
        this.ready.take_ready(cx.waker(), &mut places);
        if !places.is_empty() {
            this.end_waiting();
        }
        let mut again = Vec::new();
        for place in places.drain(..) {
            if this.serve(place) {
                again.push(place);
            }
        }
        this.ready_sockets = places;
        let now = this.now();
        this.session.step(now, &mut this.effects);
        let acted = !this.effects.is_empty();
        if acted {
            this.waiting = None;
        }
        this.perform_effects();
        if this.ending && this.session.outstanding() == 0 {
            return Poll::Ready(());
        }
        for place in again {
            // The socket may have more bytes: the driver reads them after it has served the other sockets.
            this.ready.waker(place).wake();
            more = true;
        }
        // Another round handles the consequences of a lost connection or of a full socket.
        more |= acted;
        if let Some(at) = this.session.next_turn_due() {
            let at = this.start + Duration::from_micros(at.0);
            // A timer that fires too early is set again at that time. This is cheaper than a reset for every operation.
            if at < this.timer.deadline() || this.timer.is_elapsed() {
                this.timer.as_mut().reset(at);
            }
            more |= this.timer.as_mut().poll(cx).is_ready();
        }
        if more {
            cx.waker().wake_by_ref();
        } else {
            this.schedule_poll(cx);
        }
        Poll::Pending
    }
}
