//! The interface of a service to its reactor.

use std::net::IpAddr;

use zerohop_wire::messages::{Hello, HelloAck};
use zerohop_wire::{Envelope, Failure, Message};

use super::driver::{ClockSample, ConnectionId};
use super::replies::Replies;
use super::request_token::RequestToken;

/// Whether the reactor continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The reactor continues.
    Continue,
    /// The reactor accepts nothing more, answers what is in flight, and ends.
    Stop,
}

/// Whether there is more background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// None at present.
    Done,
    /// There is more: call again after the next batch, and do not sleep before.
    More,
}

/// The result of processing bytes of another protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignResult {
    /// The service has processed some bytes; it will receive the rest again with the bytes that follow.
    Used {
        /// Number of processed bytes.
        used: usize,
        /// Minimum number of bytes, including the unprocessed ones, before the next call; zero: call again as soon as the unsent replies permit it.
        need: usize,
        /// The reactor passes on no more bytes before [`Replies::resume`].
        pauses: bool,
        /// The processed bytes still need a reply: the reactor does not close the connection before [`Replies::resume`], even if the peer has
        /// closed its sending direction.
        waits: bool,
    },
    /// The conversation is over: send the reply and close.
    Close,
}

/// The error line of a port that has only the native protocol. It begins like a Redis error, so that Redis clients show it to their user.
pub const FOREIGN_ANSWER: &[u8] =
    b"-ERR this is a zerohop instance and it speaks the zerohop protocol: use a zerohop client or `zerohop kv`\r\n";

/// The reply to a client of another protocol if all connections are in use, in the words of Redis.
pub(super) const FOREIGN_REFUSED: &[u8] =
    b"-ERR max number of clients reached: close connections that are not needed, or connect to another instance\r\n";

/// The same if the process has no descriptors left for connections.
pub(super) const FOREIGN_LACKS_DESCRIPTORS: &[u8] =
    b"-ERR max number of clients reached: the node has no descriptors left for connections: close some, or start the node with a higher limit (`ulimit -n`; LimitNOFILE for systemd)\r\n";

/// The reply to such a client if incomplete large commands use the maximum amount of memory.
pub(super) const FOREIGN_MEMORY_FULL: &[u8] = b"-OOM too many large commands are coming in: try again\r\n";

/// The reply to such a client if it sends a large command before a token.
pub(super) const FOREIGN_UNKNOWN: &[u8] = b"-NOAUTH Authentication required.\r\n";

/// The reply to such a client without TLS if the server requires TLS.
pub(super) const FOREIGN_TLS: &[u8] = b"-ERR only TLS is served here: connect with it\r\n";

/// A service of a reactor. The reactor calls all methods on its thread, one at a time.
///
/// ```text
///   one turn:   request, request, …   notice …   tick   end_of_batch   (answers are written)   maintenance
/// ```
pub trait Service {
    /// A message from another thread.
    type Notice: Send;

    /// Handles a client's greeting. The reactor itself sets version and features of the answer. Errors: the client gets the error, and the
    /// connection is closed.
    fn hello(
        &mut self,
        connection: ConnectionId,
        hello: &Hello<'_>,
        now: ClockSample,
    ) -> Result<HelloAck, Failure<'static>>;

    /// Whether a node of the cluster has this address: connections from there do not compete with other unauthenticated ones.
    fn is_node(&mut self, address: IpAddr) -> bool {
        let _ = address;
        false
    }

    /// Begins a turn: the events that have arrived are handled from now on. Returns the time in microseconds on a clock of the service, or 0 if
    /// the service measures nothing.
    fn turn_begins(&mut self, now: ClockSample) -> u64 {
        let _ = now;
        0
    }

    /// The requests of a connection follow. `arrived_us` is the result of [`Service::turn_begins`] in the turn that found the connection
    /// readable, which may be an earlier one.
    fn connection_begins(&mut self, arrived_us: u64) {
        let _ = arrived_us;
    }

    /// The answers of the turn were written, as far as sockets have accepted them: [`Replies::has_unsent`].
    fn answers_sent(&mut self, replies: &Replies<'_>) {
        let _ = replies;
    }

    /// Handles a request, and answers it now or later. An answer that depends on durability waits for [`Service::end_of_batch`].
    fn request(
        &mut self,
        token: RequestToken,
        envelope: &Envelope,
        message: Message<'_>,
        now: ClockSample,
        replies: &mut Replies<'_>,
    );

    /// Whether the time of an event must not be earlier than its arrival. Otherwise it is the time at the start of the turn, and the process may
    /// have been paused since for longer than a lease lasts.
    fn time_matters(&self) -> bool {
        false
    }

    /// Handles a message of another instance, which has no answer. It arrived on a connection that was opened by an instance
    /// ([`zerohop_wire::Features::PEER`]), or on a connection that this side has opened.
    fn peer(
        &mut self,
        connection: ConnectionId,
        envelope: &Envelope,
        message: Message<'_>,
        now: ClockSample,
        replies: &mut Replies<'_>,
    ) {
        let _ = (connection, envelope, message, now, replies);
    }

    /// Reports that a connection which this service has opened ([`Replies::connect`]) was answered. From now on it can send messages; after a
    /// failure it is closed.
    fn peer_connected(
        &mut self,
        connection: ConnectionId,
        answer: Result<&HelloAck, Failure<'_>>,
        now: ClockSample,
        replies: &mut Replies<'_>,
    ) {
        let _ = (connection, answer, now, replies);
    }

    /// Handles a message from another thread.
    fn notice(&mut self, notice: Self::Notice, now: ClockSample, replies: &mut Replies<'_>) -> Flow;

    /// When the reactor must call [`Service::tick`], in [`ClockSample::elapsed_ms`].
    fn next_deadline_ms(&self) -> Option<u64>;

    /// Reports that the deadline has passed.
    fn tick(&mut self, now: ClockSample, replies: &mut Replies<'_>);

    /// Ends a batch, after all its events: the service executes effects together, such as one flush for all, and answers the requests that waited
    /// for them. Called whenever one of the methods above was.
    fn end_of_batch(&mut self, now: ClockSample, replies: &mut Replies<'_>);

    /// Does a limited amount of background work after the answers of the batch are sent.
    fn maintain(&mut self, now: ClockSample) -> Maintenance;

    /// Reports that a connection has ended: the service may drop everything that waits for it. Its requests need no answer any more.
    fn closed(&mut self, connection: ConnectionId);

    /// Called after this service has returned [`Flow::Stop`]; no more events follow. The service must now answer the requests that only a later
    /// event could answer.
    fn stopping(&mut self, now: ClockSample, replies: &mut Replies<'_>);

    /// Handles bytes of a connection whose first byte is not that of a native frame. The reply goes into `out`.
    fn foreign(
        &mut self,
        connection: ConnectionId,
        bytes: &[u8],
        now: ClockSample,
        replies: &mut Replies<'_>,
        out: &mut Vec<u8>,
    ) -> ForeignResult {
        let _ = (connection, bytes, now, replies);
        out.extend_from_slice(FOREIGN_ANSWER);
        ForeignResult::Close
    }
}
