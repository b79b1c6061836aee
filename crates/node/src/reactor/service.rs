//! What a reactor serves.

use std::net::IpAddr;

use zerohop_wire::ids::{KeyspaceId, PartitionId, RequestId};
use zerohop_wire::messages::{Hello, HelloAck};
use zerohop_wire::{Envelope, Failure, Message};

use super::driver::{ConnectionId, Now};
use super::replies::Replies;

/// Ties an answer to its request. Every request handed over is answered or let go exactly once, at any time and in any
/// order; answers to connections that are gone by then are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken {
    /// Where it came from.
    pub connection: ConnectionId,
    /// Its id, which the answer repeats.
    pub request: RequestId,
    /// The keyspace it named, which the answer repeats.
    pub keyspace: KeyspaceId,
    /// The partition it named, which the answer repeats.
    pub partition: PartitionId,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Yes.
    Continue,
    /// Take up nothing more, answer what is in flight, and end.
    Stop,
}

/// Whether there is more work that can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// Not now.
    Done,
    /// Yes: call again after the next batch, and do not sleep before.
    More,
}

/// What became of bytes that are not of our protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// So many were taken; the rest comes again with what follows it.
    Used {
        /// How many.
        used: usize,
        /// Bytes, of those that were not taken and those that follow them, that are needed at least before it makes sense to
        /// come again; zero: come again as soon as what is to be sent allows it.
        need: usize,
        /// What comes next is not handed over before [`Replies::resume`].
        holds: bool,
        /// Something is still to be sent for what was taken: the connection is not closed before
        /// [`Replies::resume`] though its peer says that it sends no more.
        waits: bool,
    },
    /// All is said: send it and close.
    Close,
}

/// The error line of a port that speaks only our protocol. It begins as a Redis error does, so that clients of Redis
/// show it to their user.
pub const FOREIGN_ANSWER: &[u8] =
    b"-ERR this is a zerohop instance and it speaks the zerohop protocol: use a zerohop client or `zerohop kv`\r\n";

/// What a client of another protocol is told that finds no room: as Redis says it.
pub(super) const FOREIGN_REFUSED: &[u8] = b"-ERR max number of clients reached\r\n";

/// What such a client is told when large commands that are still coming hold as much memory as they may.
pub(super) const FOREIGN_NO_ROOM: &[u8] = b"-OOM too many large commands are coming in: try again\r\n";

/// What such a client is told that begins a large command before it has shown a token.
pub(super) const FOREIGN_UNKNOWN: &[u8] = b"-NOAUTH Authentication required.\r\n";

/// What such a client is told that speaks no TLS where nothing else is served.
pub(super) const FOREIGN_TLS: &[u8] = b"-ERR only TLS is served to other machines here: connect with it\r\n";

/// What a reactor serves. All methods are called on the reactor's thread, one at a time.
///
/// ```text
///   one turn:   request, request, …   notice …   tick   end_of_batch   (answers are written)   upkeep
/// ```
pub trait Service {
    /// What other threads tell this one.
    type Notice: Send;

    /// A client introduces itself. The reactor fills in version and features of the answer itself. Errors: the
    /// connection is told why and closed.
    fn hello(
        &mut self,
        connection: ConnectionId,
        hello: &Hello<'_>,
        now: Now,
    ) -> Result<HelloAck, Failure<'static>>;

    /// Whether a node of the cluster is at this address: who connects from there does not compete with strangers.
    fn is_node(&mut self, address: IpAddr) -> bool {
        let _ = address;
        false
    }

    /// Takes up a request, and answers it now or later. What must be durable before its answer is sent waits for
    /// [`Service::end_of_batch`].
    fn request(
        &mut self,
        token: RequestToken,
        envelope: &Envelope,
        message: Message<'_>,
        now: Now,
        replies: &mut Replies<'_>,
    );

    /// Whether the time that comes with something must not be earlier than when that came. It is otherwise that of the
    /// turn's beginning, and a process may be paused in between for longer than a lease lasts.
    fn time_matters(&self) -> bool {
        false
    }

    /// Takes up what another instance says, which is not answered with an answer. It came on a connection that connected as
    /// an instance ([`zerohop_wire::Features::PEER`]), or on one that this side has begun.
    fn peer(
        &mut self,
        connection: ConnectionId,
        envelope: &Envelope,
        message: Message<'_>,
        now: Now,
        replies: &mut Replies<'_>,
    ) {
        let _ = (connection, envelope, message, now, replies);
    }

    /// A connection that this service has begun ([`Replies::connect`]) was answered. Messages can be sent on it from now
    /// on; with a failure it is closed.
    fn linked(
        &mut self,
        connection: ConnectionId,
        answer: Result<&HelloAck, Failure<'_>>,
        now: Now,
        replies: &mut Replies<'_>,
    ) {
        let _ = (connection, answer, now, replies);
    }

    /// Takes up what another thread has to say.
    fn notice(&mut self, notice: Self::Notice, now: Now, replies: &mut Replies<'_>) -> Flow;

    /// When [`Service::tick`] wants to be called, in [`Now::elapsed_ms`].
    fn next_deadline_ms(&self) -> Option<u64>;

    /// The deadline has come.
    fn tick(&mut self, now: Now, replies: &mut Replies<'_>);

    /// All that this turn brings has been handed over: effects are carried out together, such as one flush for all,
    /// and what waited for them is answered. Called whenever one of the above was.
    fn end_of_batch(&mut self, now: Now, replies: &mut Replies<'_>);

    /// The answers of the batch are on their way: a bounded piece of work that nobody waits for.
    fn upkeep(&mut self, now: Now) -> Upkeep;

    /// A connection has ended; what waits on its behalf may be dropped. Its requests need no answer any more.
    fn closed(&mut self, connection: ConnectionId);

    /// This service has said [`Flow::Stop`], and nothing more is taken up: what can only be answered by what comes later is
    /// answered now.
    fn stopping(&mut self, now: Now, replies: &mut Replies<'_>);

    /// Bytes of a connection whose first byte is not that of our frames. What is to be sent goes into `out`.
    fn foreign(
        &mut self,
        connection: ConnectionId,
        bytes: &[u8],
        now: Now,
        replies: &mut Replies<'_>,
        out: &mut Vec<u8>,
    ) -> Foreign {
        let _ = (connection, bytes, now, replies);
        out.extend_from_slice(FOREIGN_ANSWER);
        Foreign::Close
    }
}
