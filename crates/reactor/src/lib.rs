//! The reactor of an instance: one thread, one event loop, one listener.
//!
//! ```text
//!   Driver (mio)            Reactor, one turn                               Service (an instance)
//!   ────────────            ─────────────────                               ─────────────────────
//!   wait ──events──▶        accept
//!   read ──bytes───▶        decode frames, bounded per connection ────────▶ request
//!                           take notices of other threads (Mailbox) ──────▶ notice
//!                           a deadline has come ──────────────────────────▶ tick
//!                                                                           end_of_batch: one flush for all
//!   write ◀── one per socket ── answers, in any order, by token ◀────────── Replies
//!                           close what is overdue                           maintenance, after the answers
//! ```
//!
//! Batching gives the throughput: the reactor processes everything that is readable together, and answers with one system call for each connection.
//! All resources are limited ([`limits`]). A peer that does not read its answers is not read until it does. A peer that sends invalid frames,
//! trickles bytes, or is silent inside a frame gets an error as far as possible, and is closed. None of these delays other connections. In the
//! steady state no request allocates memory: buffers are shared or reused.

mod connection;
mod connections;
mod counters;
mod driver;
mod handshake;
mod inbox;
pub mod limits;
mod mio_driver;
mod proofs;
mod receive;
mod replies;
mod request_token;
mod send;
mod service;
mod socket;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod unauthenticated;
mod waiting;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::Duration;

use zerohop_wire::Features;

pub use self::counters::{CloseReason, ReactorCounters};
pub use self::driver::{Admission, ClockSample, ConnectionId, Driver, DriverEvent, IoReadiness};
pub use self::inbox::{Inbox, NoticeError, ReactorMailbox};
pub use self::limits::{CONNECTIONS_MAX, Limits, UNSENT_BYTES_MAX};
pub use self::mio_driver::MioDriver;
pub use self::proofs::Proofs;
pub use self::replies::Replies;
pub use self::request_token::RequestToken;
pub use self::service::{FOREIGN_ANSWER, Flow, ForeignResult, Maintenance, Service};
pub use self::tls::{CertificateRefusals, TlsOptions};
pub use self::unauthenticated::{NodeAddresses, Origin, UnprovenBounds, UnprovenConnections, UnprovenSlot};

use self::connection::{Connection, Refusal};
use self::connections::Connections;
use self::limits::{ACCEPT_RETRY_MS, ACCEPTS_PER_TURN_MAX, NOTICES_PER_TURN_MAX, RECEIVE_BYTES};

/// The features of this side beyond the version of the wire format.
const FEATURES: Features = Features(
    Features::LZ4.0
        | Features::PEER.0
        | Features::COALESCED.0
        | Features::READ_LOCKS.0
        | Features::CONTENTS.0,
);

/// An event loop over one listener and its connections.
#[derive(Debug)]
pub struct Reactor<D, S: Service> {
    driver: D,
    service: S,
    connections: Connections,
    inbox: Inbox<S::Notice>,
    now: ClockSample,
    /// The events of the last wait; cleared in every turn and kept for its capacity.
    events: Vec<DriverEvent>,
    /// Connections that have work in this turn, each once, with [`TurnBatch::arrived_us`] of the turn that has found the work.
    ready: VecDeque<(ConnectionId, u64)>,
    /// The buffer that all reads share, and the buffer into which compressed bodies are expanded.
    shared: Vec<u8>,
    expanded: Vec<u8>,
    /// Overdue connections; kept for its capacity.
    overdue: Vec<(ConnectionId, CloseReason)>,
    accept_ready: bool,
    accept_again_ms: Option<u64>,
    notices_ready: bool,
    /// No connection's time-out ends before this.
    sweep_ms: u64,
    batch: TurnBatch,
    maintenance: Maintenance,
    /// Set when the service stops: when the reactor ends even if answers are missing.
    stop_ms: Option<u64>,
}

/// What the reactor has passed to the service in one turn.
#[derive(Clone, Copy, Debug, Default)]
struct TurnBatch {
    /// Number of received frames: a batch of requests is one.
    frames: usize,
    requests: u32,
    bytes: usize,
    touched: bool,
    /// See [`Service::turn_begins`].
    arrived_us: u64,
}

impl<D: Driver, S: Service> Reactor<D, S> {
    /// Creates a reactor, and the mailbox through which other threads reach its service.
    #[must_use]
    pub fn new(mut driver: D, service: S, limits: Limits) -> (Self, ReactorMailbox<S::Notice>) {
        let (mailbox, inbox) = Inbox::new(driver.waker());
        let reactor = Reactor {
            now: driver.now(),
            driver,
            service,
            connections: Connections::new(limits),
            inbox,
            events: Vec::new(),
            ready: VecDeque::new(),
            shared: Vec::with_capacity(RECEIVE_BYTES),
            expanded: Vec::new(),
            overdue: Vec::new(),
            accept_ready: false,
            accept_again_ms: None,
            notices_ready: false,
            sweep_ms: u64::MAX,
            batch: TurnBatch::default(),
            maintenance: Maintenance::Done,
            stop_ms: None,
        };
        (reactor, mailbox)
    }

    /// From now on both sides of every connection must prove that they know the cluster's secret, if there is one.
    pub fn prove(&mut self, proofs: Option<Proofs>) {
        self.connections.proofs = proofs;
    }

    /// Runs until the service returns [`Flow::Stop`].
    ///
    /// # Errors
    /// The event queue itself failed; errors of connections end only these.
    pub fn run(&mut self) -> io::Result<()> {
        while self.turn()? {}
        Ok(())
    }

    /// The service, after the reactor has ended.
    #[must_use]
    pub fn into_service(self) -> S {
        self.service
    }

    /// One turn of the loop. `false`: the reactor has stopped.
    fn turn(&mut self) -> io::Result<bool> {
        let time_out = self.time_out();
        self.events.clear();
        self.driver.count_requests(self.batch.frames);
        self.driver.wait(time_out, &mut self.events)?;
        self.now = self.driver.now();
        let arrived_us = self.service.turn_begins(self.now);
        self.batch = TurnBatch { arrived_us, ..TurnBatch::default() };
        self.handle_events();
        self.accept();
        self.handle_notices();
        self.serve_ready();
        self.end_batch();
        self.flush_all();
        self.service.answers_sent(&replies(&mut self.connections, &mut self.driver, self.now));
        self.sweep();
        if self.stop_ms.is_some_and(|stop_ms| self.has_stopped(stop_ms)) {
            self.close_all();
            return Ok(false);
        }
        self.maintenance = self.service.maintain(self.now);
        Ok(true)
    }

    /// How long the next wait may last.
    fn time_out(&mut self) -> Option<Duration> {
        let accept = self.accept_ready && self.accept_again_ms.is_none() && self.stop_ms.is_none();
        if accept || self.notices_ready || !self.ready.is_empty() || self.maintenance == Maintenance::More {
            return Some(Duration::ZERO);
        }
        let deadlines = [self.service.next_deadline_ms(), self.accept_again_ms, self.stop_ms];
        let next_ms = deadlines.into_iter().flatten().fold(self.sweep_ms, u64::min);
        if next_ms == u64::MAX {
            return None;
        }
        Some(Duration::from_millis(next_ms.saturating_sub(self.driver.now().elapsed_ms)))
    }

    fn handle_events(&mut self) {
        for index in 0..self.events.len() {
            match self.events[index] {
                DriverEvent::Accept => self.accept_ready = true,
                // A wake-up without a notice means that a background operation of the service has ended.
                DriverEvent::Woken => (self.notices_ready, self.batch.touched) = (true, true),
                DriverEvent::Connection { id, ready } => {
                    let Some(connection) = self.connections.get_mut(id) else { continue };
                    connection.apply_readiness(ready);
                    // Queued bytes are sent at the end of the turn, with the bytes that this turn adds.
                    let flush = connection.doomed.is_some() || (ready.writable && connection.unsent() > 0);
                    if flush {
                        self.connections.mark_dirty(id);
                    }
                    self.enqueue(id);
                }
            }
        }
    }

    /// Queues a connection for a turn if it has work.
    fn enqueue(&mut self, id: ConnectionId) {
        let stopping = self.stop_ms.is_some();
        let Some(connection) = self.connections.get(id) else { return };
        let wants_turn = connection.has_work(&self.connections.limits, self.connections.unsent_total);
        if wants_turn
            && (!stopping || connection.is_closing())
            && let Some(connection) = self.connections.get_mut(id)
            && !std::mem::replace(&mut connection.queued, true)
        {
            self.ready.push_back((id, self.batch.arrived_us));
        }
    }

    fn accept(&mut self) {
        if self.accept_again_ms.is_some_and(|again_ms| again_ms <= self.now.elapsed_ms) {
            self.accept_again_ms = None;
            self.accept_ready = true;
        }
        if !self.accept_ready || self.accept_again_ms.is_some() || self.stop_ms.is_some() {
            return;
        }
        let Limits { connections_max, refusals_max, .. } = self.connections.limits;
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            let id = self.connections.next_id();
            match self.driver.accept(id) {
                Ok(admission) => {
                    self.connections.counters.accepted += 1;
                    let address = self.driver.peer(id).map(|peer| peer.ip());
                    let is_node = address.is_some_and(|address| self.service.is_node(address));
                    let origin = Origin::of(address, is_node);
                    let open = self.connections.open;
                    // Only authenticated connections exclude others: of the unauthenticated ones the oldest is closed.
                    let is_full = self.connections.authenticated_count() >= connections_max;
                    let refused = match admission {
                        _ if is_full => Some(Refusal::AllInUse),
                        Admission::Refusal => Some(Refusal::NoDescriptors),
                        Admission::Service => None,
                    };
                    let beyond_words = is_full && open >= connections_max + refusals_max;
                    let unproven = &self.connections.unproven;
                    let displaced = unproven.connection_to_close(origin).or_else(|| {
                        let is_displacing = !is_full && open >= connections_max;
                        unproven.oldest().filter(|_| is_displacing)
                    });
                    let connection = Connection::new(self.now.elapsed_ms, refused);
                    self.connections.open_unproven(id, origin, connection);
                    if beyond_words {
                        self.close(id, CloseReason::TooMany);
                        continue;
                    }
                    self.watch(id);
                    if let Some(displaced) = displaced {
                        self.close(displaced, CloseReason::Displaced);
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => {
                        self.accept_ready = false;
                        return;
                    }
                    // The client has gone, or a signal arrived.
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    _ => {
                        self.connections.counters.accept_errors += 1;
                        // Descriptors may be used up: the oldest unauthenticated connection is closed to free one.
                        if let Some(oldest) = self.connections.unproven.oldest() {
                            self.close(oldest, CloseReason::Displaced);
                        }
                        self.accept_again_ms = Some(self.now.elapsed_ms + ACCEPT_RETRY_MS);
                        return;
                    }
                },
            }
        }
    }

    fn handle_notices(&mut self) {
        if !std::mem::take(&mut self.notices_ready) {
            return;
        }
        for _ in 0..NOTICES_PER_TURN_MAX {
            let Some(notice) = self.inbox.take() else { return };
            self.batch.touched = true;
            self.refresh_now();
            let mut replies = replies(&mut self.connections, &mut self.driver, self.now);
            if self.service.notice(notice, self.now, &mut replies) == Flow::Stop {
                self.stop();
            }
        }
        self.notices_ready = true;
    }

    /// Reads the clock again after something has arrived, if the service needs it.
    fn refresh_now(&mut self) {
        if self.service.time_matters() {
            self.now = self.driver.now();
        }
    }

    fn stop(&mut self) {
        if self.stop_ms.is_none() {
            self.stop_ms = Some(self.now.elapsed_ms + self.connections.limits.stop_time_out_ms);
            self.driver.stop_accepting();
            let mut replies = replies(&mut self.connections, &mut self.driver, self.now);
            self.service.stopping(self.now, &mut replies);
        }
    }

    /// Gives each connection in the queue its turn, until the batch is full.
    fn serve_ready(&mut self) {
        for _ in 0..self.ready.len() {
            if self.batch_is_full() {
                return;
            }
            let Some((id, arrived_us)) = self.ready.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(id) else { continue };
            connection.queued = false;
            if self.stop_ms.is_none() || connection.is_closing() {
                self.service.connection_begins(arrived_us);
                self.serve(id);
                self.enqueue(id);
                self.watch(id);
            }
        }
    }

    fn batch_is_full(&self) -> bool {
        let Limits { batch_requests_max, batch_bytes_max, .. } = self.connections.limits;
        self.batch.requests >= batch_requests_max || self.batch.bytes >= batch_bytes_max
    }

    fn end_batch(&mut self) {
        let mut replies = replies(&mut self.connections, &mut self.driver, self.now);
        if self.service.next_deadline_ms().is_some_and(|deadline_ms| deadline_ms <= self.now.elapsed_ms) {
            self.service.tick(self.now, &mut replies);
            self.batch.touched = true;
        }
        if self.batch.touched {
            self.service.end_of_batch(self.now, &mut replies);
            self.connections.counters.batches += 1;
        }
    }

    /// Makes sure that the reactor wakes up for a connection's deadline.
    fn watch(&mut self, id: ConnectionId) {
        let unsent_total = self.connections.unsent_total;
        let Some(connection) = self.connections.get(id) else { return };
        if let Some((deadline_ms, _)) = connection.deadline(&self.connections.limits, unsent_total) {
            self.sweep_ms = self.sweep_ms.min(deadline_ms);
        }
    }

    /// Closes overdue connections. Deadlines mostly move before they are reached, so this seldom runs.
    fn sweep(&mut self) {
        if self.now.elapsed_ms < self.sweep_ms {
            return;
        }
        self.sweep_ms = u64::MAX;
        let mut overdue = std::mem::take(&mut self.overdue);
        for (id, connection) in self.connections.iter() {
            match connection.deadline(&self.connections.limits, self.connections.unsent_total) {
                Some((deadline_ms, why)) if deadline_ms <= self.now.elapsed_ms => overdue.push((id, why)),
                Some((deadline_ms, _)) => self.sweep_ms = self.sweep_ms.min(deadline_ms),
                None => {}
            }
        }
        for (id, why) in overdue.drain(..) {
            self.close(id, why);
        }
        self.overdue = overdue;
    }

    fn has_stopped(&self, stop_ms: u64) -> bool {
        // Messages that other instances have not read are sent again by the replica that takes over.
        let waits = |connection: &Connection| {
            connection.in_flight > 0 || connection.unsent() > 0 && !connection.is_ours
        };
        self.now.elapsed_ms >= stop_ms || !self.connections.iter().any(|(_, connection)| waits(connection))
    }

    fn close_all(&mut self) {
        let all: Vec<ConnectionId> = self.connections.iter().map(|(id, _)| id).collect();
        for id in all {
            self.driver.shutdown_write(id);
            self.close(id, CloseReason::Stopped);
        }
    }

    /// Closes a connection now.
    fn close(&mut self, id: ConnectionId, why: CloseReason) {
        if self.connections.remove(id, why) {
            self.driver.close(id);
            self.service.closed(id);
        }
    }
}

fn replies<'r, D: Driver>(
    connections: &'r mut Connections,
    driver: &'r mut D,
    now: ClockSample,
) -> Replies<'r> {
    Replies { connections, driver, now }
}
