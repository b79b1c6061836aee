//! One connection: its received bytes, its bytes to send, and its time-outs.

use std::collections::BTreeMap;

use zerohop_wire::auth::{Access, Caller, Challenge};
use zerohop_wire::ids::RequestId;
use zerohop_wire::messages::HelloAck;
use zerohop_wire::{AnswerGathering, Decoder, Encoder, Features};

use super::counters::CloseReason;
use super::driver::IoReadiness;
use super::limits::{FRAME_BYTES_PER_MS_MIN, Limits};
use super::waiting::WaitingLoad;
use crate::unauthenticated::UnprovenSlot;

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionStage {
    /// No byte has arrived: the connection may use any protocol.
    Fresh,
    /// This side has connected and sent its greeting; it waits for the answer, and then for the acceptance of its proof.
    Calling,
    /// The connection uses the native protocol, and the greeting is not complete.
    Greeting,
    /// The greeting was answered, and the client must prove that it knows the cluster's secret.
    Proving,
    /// Both sides have agreed on a version.
    Talking,
    /// The connection uses another protocol.
    Foreign,
    /// The last answer is being sent; received bytes are discarded.
    Closing(CloseReason),
}

/// Received bytes that are not processed yet. The processed front is removed only at the next read. Processing requests one by one therefore does
/// not move the bytes behind them each time.
#[derive(Debug, Default)]
pub(super) struct ReceiveBuffer {
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
}

impl ReceiveBuffer {
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Moves the remaining bytes to the front.
    pub(super) fn compact(&mut self) {
        self.bytes.drain(..self.at);
        self.at = 0;
    }

    /// Clears the buffer and returns it.
    pub(super) fn empty(&mut self) -> Vec<u8> {
        self.at = 0;
        let mut buffer = std::mem::take(&mut self.bytes);
        buffer.clear();
        buffer
    }
}

/// A greeting that was answered, and what both sides have agreed on once the proof has arrived.
#[derive(Debug)]
pub(super) struct AnsweredGreeting {
    pub(super) challenge: Challenge,
    pub(super) features: Features,
    pub(super) is_peer: bool,
}

/// Why a connection is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// All connections are in use.
    AllInUse,
    /// The process has no descriptors left for connections.
    NoDescriptors,
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stage: ConnectionStage,
    /// When it entered this stage.
    pub(super) stage_since_ms: u64,
    /// When it was accepted, or opened by this side.
    pub(super) since_ms: u64,
    /// The connection was accepted only to be refused, for this reason.
    pub(super) refused: Option<Refusal>,
    /// This side has opened the connection: it receives answers.
    pub(super) is_ours: bool,
    /// The client is another instance.
    pub(super) is_peer: bool,
    /// Its permissions, once it is authenticated, or if the cluster has no secret.
    pub(super) access: Access,
    /// Its place among the unauthenticated connections.
    pub(super) unproven_slot: Option<UnprovenSlot>,
    /// Bytes of another protocol that were processed while it was unauthenticated.
    pub(super) unproven_bytes: usize,
    /// The expected proof, and the state after it.
    pub(super) expected_proof: Option<AnsweredGreeting>,
    /// This side's handshake on a connection that it has opened, and then its result.
    pub(super) caller: Option<Caller>,
    pub(super) proving: Option<Box<HelloAck>>,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,

    pub(super) received: ReceiveBuffer,
    /// Number of bytes that must arrive before the next frame is complete; zero: not known.
    pub(super) need: usize,
    /// When the first byte of the frame at the front arrived.
    pub(super) frame_since_ms: u64,
    /// Remaining bytes of a refused frame, which are discarded.
    pub(super) bytes_to_skip: usize,
    /// Bytes of the buffer that count as memory of large frames.
    pub(super) large_bytes: usize,
    /// A read may return bytes.
    pub(super) readable: bool,
    /// After the last bytes a read returns the end of the stream; the system does not report this again.
    pub(super) read_closed: bool,
    /// When the end of the stream was found.
    pub(super) ended_ms: Option<u64>,
    /// When bytes last arrived.
    pub(super) last_ms: u64,

    pub(super) out: Vec<u8>,
    /// The peer accepts coalesced frames.
    pub(super) accepts_coalesced: bool,
    /// Whether `out` ends with answers that others may join. The frame is closed before `out` is sent.
    pub(super) is_coalescing: AnswerGathering,
    /// Number of bytes of `out` that are sent.
    pub(super) sent: usize,
    /// A write may accept bytes.
    pub(super) writable: bool,
    /// When the peer last accepted bytes, or there was nothing to send.
    pub(super) send_since_ms: u64,
    /// Number of requests without an answer; for another protocol, one if the connection waits for anything.
    pub(super) in_flight: u32,
    /// For another protocol: nothing is read until its service resumes it.
    pub(super) is_paused: bool,
    /// Of a foreign protocol: its service has more to say once there is room.
    pub(super) has_more: bool,

    /// Number of bytes that its service buffers for it.
    pub(super) service_bytes: usize,
    /// Its requests that wait for a record, each with its number of bytes; by request id.
    pub(super) waits: BTreeMap<RequestId, Vec<WaitingLoad>>,
    /// The total of these.
    pub(super) waits_load: WaitingLoad,
    /// The load that is counted for it.
    pub(super) load: WaitingLoad,
    /// The load of its token is high.
    pub(super) is_crowded: bool,

    /// It is in the queue of connections that need a turn.
    pub(super) queued: bool,
    /// It is in the list of connections that have bytes to send.
    pub(super) dirty: bool,
    /// It cannot continue: it will be closed for this reason before the turn ends.
    pub(super) doomed: Option<CloseReason>,
}

impl Connection {
    pub(super) fn new(now_ms: u64, refused: Option<Refusal>) -> Self {
        Connection {
            stage: ConnectionStage::Fresh,
            stage_since_ms: now_ms,
            since_ms: now_ms,
            refused,
            is_ours: false,
            is_peer: false,
            access: Access::All,
            unproven_slot: None,
            unproven_bytes: 0,
            expected_proof: None,
            caller: None,
            proving: None,
            decoder: Decoder::before_hello(),
            encoder: Encoder::default(),
            received: ReceiveBuffer::default(),
            need: 0,
            frame_since_ms: now_ms,
            bytes_to_skip: 0,
            large_bytes: 0,
            readable: false,
            read_closed: false,
            ended_ms: None,
            last_ms: now_ms,
            out: Vec::new(),
            accepts_coalesced: false,
            is_coalescing: AnswerGathering::default(),
            sent: 0,
            writable: true,
            send_since_ms: now_ms,
            in_flight: 0,
            is_paused: false,
            has_more: false,
            service_bytes: 0,
            waits: BTreeMap::new(),
            waits_load: WaitingLoad::default(),
            load: WaitingLoad::default(),
            is_crowded: false,
            queued: false,
            dirty: false,
            doomed: None,
        }
    }

    /// A connection that this side has started to open: nothing can be sent before the system reports that it is open.
    pub(super) fn calling(now_ms: u64) -> Self {
        let calling = Connection::new(now_ms, None);
        Connection { stage: ConnectionStage::Calling, is_ours: true, writable: false, ..calling }
    }

    pub(super) fn apply_readiness(&mut self, ready: IoReadiness) {
        self.readable |= ready.readable || ready.read_closed;
        self.read_closed |= ready.read_closed;
        self.writable |= ready.writable;
        if ready.dead {
            self.doomed.get_or_insert(CloseReason::Broken);
        }
    }

    /// Applies the version and features that both sides have agreed on.
    pub(super) fn set_version(&mut self, version: u8, features: Features) {
        self.decoder = Decoder::with_version(version, features);
        self.accepts_coalesced = features.has(Features::COALESCED);
    }

    /// Closes the frame to which answers were added.
    pub(super) fn close_frame(&mut self) {
        self.is_coalescing.close(&self.encoder, &mut self.out);
    }

    /// Number of bytes that wait to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Whether the connection is unauthenticated: its greeting or its proof is not complete.
    pub(super) fn is_unproven(&self) -> bool {
        self.unproven_slot.is_some()
    }

    /// Its current load.
    pub(super) fn waiting(&self) -> WaitingLoad {
        if self.is_ours || self.is_peer {
            return WaitingLoad::default();
        }
        let received = self.received.len().max(self.large_bytes);
        let WaitingLoad { bytes, waits } = self.waits_load;
        WaitingLoad { bytes: received + self.unsent() + self.service_bytes + bytes, waits }
    }

    /// Records that a request waits for a record, with this load.
    pub(super) fn begin_wait(&mut self, request: RequestId, load: WaitingLoad) {
        self.waits.entry(request).or_default().push(load);
        self.waits_load = WaitingLoad {
            bytes: self.waits_load.bytes + load.bytes,
            waits: self.waits_load.waits + load.waits,
        };
    }

    /// Records that a request is answered. Returns whether it was waiting.
    pub(super) fn end_wait(&mut self, request: RequestId) -> bool {
        let Some(of_id) = self.waits.get_mut(&request) else { return false };
        let load = of_id.pop().unwrap_or_default();
        if of_id.is_empty() {
            self.waits.remove(&request);
        }
        self.waits_load = WaitingLoad {
            bytes: self.waits_load.bytes - load.bytes,
            waits: self.waits_load.waits - load.waits,
        };
        true
    }

    pub(super) fn is_closing(&self) -> bool {
        matches!(self.stage, ConnectionStage::Closing(_))
    }

    /// Whether a complete frame may have arrived.
    pub(super) fn has_frame(&self) -> bool {
        self.received.len() > 0 && self.received.len() >= self.need
    }

    /// Whether the connection is not read until answers are sent.
    pub(super) fn is_blocked(&self, limits: &Limits, unsent_total: usize) -> bool {
        // The sender of these messages limits them: reading does not add to them, and a received message may be a lease.
        if self.is_ours {
            return false;
        }
        let is_crowded =
            (unsent_total > limits.unsent_bytes_total_max / 2 || self.is_crowded) && !self.is_peer;
        let unsent_max = if is_crowded { 0 } else { limits.unsent_bytes_max };
        self.is_paused || self.unsent() > unsent_max || self.in_flight >= limits.in_flight_max
    }

    /// Whether it has work for the next turn.
    pub(super) fn has_work(&self, limits: &Limits, unsent_total: usize) -> bool {
        if self.doomed.is_some() {
            return false;
        }
        let can_read = self.readable && self.ended_ms.is_none();
        if self.is_closing() {
            return can_read;
        }
        (can_read || self.has_frame() || self.has_more) && !self.is_blocked(limits, unsent_total)
    }

    /// Whether the peer has closed its sending direction and all its requests are answered.
    pub(super) fn is_finished(&self) -> bool {
        self.ended_ms.is_some()
            && self.unsent() == 0
            && (self.is_closing() || (self.in_flight == 0 && !self.has_frame()))
    }

    /// When the connection's next time-out ends, and the reason for which it is closed then.
    pub(super) fn deadline(&self, limits: &Limits, unsent_total: usize) -> Option<(u64, CloseReason)> {
        if let ConnectionStage::Closing(why) = self.stage {
            return Some((self.stage_since_ms + limits.linger_ms, why));
        }
        if self.stage == ConnectionStage::Calling {
            return Some((self.stage_since_ms + limits.call_time_out_ms, CloseReason::NoAnswer));
        }
        if self.is_unproven() {
            // Whatever it sends, and whether or not it reads its replies.
            let is_foreign = self.stage == ConnectionStage::Foreign;
            let why = if is_foreign { CloseReason::NotProved } else { CloseReason::HelloTimeOut };
            return Some((self.since_ms + limits.hello_time_out_ms, why));
        }
        if self.unsent() > 0 {
            return Some((self.send_since_ms + limits.send_time_out_ms, CloseReason::SendTimeOut));
        }
        if let Some(ended_ms) = self.ended_ms {
            return Some((ended_ms + limits.half_closed_time_out_ms, CloseReason::HalfClosedTimeOut));
        }
        let frame_begun = self.received.len() > 0 || self.bytes_to_skip > 0;
        if frame_begun && !self.has_frame() && !self.is_blocked(limits, unsent_total) {
            let frame_bytes = self.need.max(self.bytes_to_skip) as u64;
            let time_out_ms = limits.frame_time_out_ms + frame_bytes / FRAME_BYTES_PER_MS_MIN;
            return Some((self.frame_since_ms + time_out_ms, CloseReason::FrameTimeOut));
        }
        if self.stage == ConnectionStage::Foreign {
            // Clients of other protocols keep unused connections open, and do not expect to lose them. The system's keep-alive detects those whose
            // machine has failed.
            return None;
        }
        (self.in_flight == 0).then_some((self.last_ms + limits.idle_time_out_ms, CloseReason::Idle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unauthenticated::{Origin, UnprovenBounds, UnprovenConnections};

    const LIMITS: Limits = Limits {
        unsent_bytes_max: 100,
        unsent_bytes_total_max: 1000,
        in_flight_max: 3,
        hello_time_out_ms: 5,
        call_time_out_ms: 3,
        frame_time_out_ms: 7,
        send_time_out_ms: 11,
        idle_time_out_ms: 13,
        half_closed_time_out_ms: 17,
        linger_ms: 19,
        ..Limits::DEFAULT
    };

    fn unproven_slot() -> UnprovenSlot {
        UnprovenConnections::new(UnprovenBounds { all_max: 1, origin_max: 1 })
            .enter((), Origin::of(None, false))
    }

    fn talking() -> Connection {
        Connection { stage: ConnectionStage::Talking, ..Connection::new(1000, None) }
    }

    #[test]
    fn every_state_in_which_only_the_peer_can_act_has_a_deadline() {
        let deadline = |connection: Connection| connection.deadline(&LIMITS, 0);
        let unproven = |connection| Connection { unproven_slot: Some(unproven_slot()), ..connection };
        assert_eq!(deadline(unproven(Connection::new(1000, None))), Some((1005, CloseReason::HelloTimeOut)));
        let calling = Connection { out: vec![0], ..Connection::calling(1000) };
        assert_eq!(deadline(calling), Some((1003, CloseReason::NoAnswer)));
        assert_eq!(deadline(talking()), Some((1013, CloseReason::Idle)));
        let received = ReceiveBuffer { bytes: vec![0; 10], at: 0 };
        let begun = Connection { received, need: 48 + 2560, ..talking() };
        assert_eq!(deadline(begun), Some((1000 + 7 + 10, CloseReason::FrameTimeOut)));
        assert_eq!(
            deadline(Connection { out: vec![0], ..talking() }),
            Some((1011, CloseReason::SendTimeOut))
        );
        assert_eq!(
            deadline(Connection { ended_ms: Some(1001), in_flight: 1, ..talking() }),
            Some((1018, CloseReason::HalfClosedTimeOut))
        );
        let foreign = || Connection { stage: ConnectionStage::Foreign, ..talking() };
        assert_eq!(deadline(foreign()), None, "clients of such protocols keep what they do not use");
        let closing = Connection { stage: ConnectionStage::Closing(CloseReason::Misbehaved), ..talking() };
        assert_eq!(deadline(closing), Some((1019, CloseReason::Misbehaved)));
    }

    #[test]
    fn unproven_connection_has_a_fixed_time_limit() {
        let deadline = |connection: Connection| connection.deadline(&LIMITS, 0);
        let at =
            |stage| Connection { stage, unproven_slot: Some(unproven_slot()), ..Connection::new(1000, None) };
        let begun = || ReceiveBuffer { bytes: vec![0; 10], at: 0 };
        for (stage, why) in [
            (ConnectionStage::Fresh, CloseReason::HelloTimeOut),
            (ConnectionStage::Greeting, CloseReason::HelloTimeOut),
            (ConnectionStage::Proving, CloseReason::HelloTimeOut),
            (ConnectionStage::Foreign, CloseReason::NotProved),
        ] {
            assert_eq!(deadline(at(stage)), Some((1005, why)));
            let later = Connection { stage_since_ms: 1004, last_ms: 1004, ..at(stage) };
            assert_eq!(deadline(later), Some((1005, why)), "sending does not prolong it");
            let half = Connection { received: begun(), need: 9_999, frame_since_ms: 1004, ..at(stage) };
            assert_eq!(deadline(half), Some((1005, why)), "half a frame does not prolong it");
            let deaf = Connection { out: vec![0], send_since_ms: 1004, ..at(stage) };
            assert_eq!(deadline(deaf), Some((1005, why)), "unread replies do not prolong it");
            let ended = Connection { ended_ms: Some(1004), ..at(stage) };
            assert_eq!(deadline(ended), Some((1005, why)));
        }
    }

    #[test]
    fn connection_awaiting_an_answer_is_not_idle() {
        assert_eq!(Connection { in_flight: 1, ..talking() }.deadline(&LIMITS, 0), None);
    }

    #[test]
    fn unread_answers_and_requests_in_flight_block() {
        let reading = || Connection { readable: true, ..talking() };
        assert!(reading().has_work(&LIMITS, 0));
        assert!(!Connection { in_flight: 3, ..reading() }.has_work(&LIMITS, 0));
        let unsent = |bytes| Connection { out: vec![0; bytes], ..reading() };
        assert!(unsent(100).has_work(&LIMITS, 100) && !unsent(101).has_work(&LIMITS, 101));
        assert!(!unsent(1).has_work(&LIMITS, 501), "all together have too much");
        assert!(unsent(0).has_work(&LIMITS, 501), "it has no part in that");
    }

    #[test]
    fn remaining_bytes_stay_when_front_is_consumed() {
        let mut received = ReceiveBuffer { bytes: vec![1, 2, 3, 4], at: 3 };
        received.compact();
        assert_eq!((received.unread(), received.len()), (&[4][..], 1));
    }
}
