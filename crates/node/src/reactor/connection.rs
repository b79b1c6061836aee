//! One connection: what it has received and not yet understood, what it has to send, and when its patience ends.

use std::collections::BTreeMap;

use zerohop_wire::auth::{Access, Caller, Challenge};
use zerohop_wire::ids::RequestId;
use zerohop_wire::messages::HelloAck;
use zerohop_wire::{AnswerGathering, Decoder, Encoder, Features};

use super::counters::CloseReason;
use super::driver::IoReadiness;
use super::limits::{FRAME_BYTES_PER_MS_MIN, Limits};
use super::waiting::WaitingLoad;
use crate::unproven::UnprovenSlot;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionStage {
    /// No byte has come: it may be of any protocol.
    Fresh,
    /// This side has connected and greeted, and waits for the answer, and then for its proof to be taken.
    Calling,
    /// It speaks ours and has not been greeted.
    Greeting,
    /// It was greeted, and has to prove that it knows the cluster's secret.
    Proving,
    /// Both sides have agreed on a version.
    Talking,
    /// It speaks another protocol.
    Foreign,
    /// Its last answer is on its way; what it sends is read and thrown away.
    Closing(CloseReason),
}

/// Bytes received and not yet taken. The front is moved away only when more is read, so that taking requests one by
/// one does not move what is behind them each time.
#[derive(Debug, Default)]
pub(super) struct ReceiveBuffer {
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
}

impl ReceiveBuffer {
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Moves what is left to the front.
    pub(super) fn compact(&mut self) {
        self.bytes.drain(..self.at);
        self.at = 0;
    }

    /// Forgets all, and hands the buffer back.
    pub(super) fn empty(&mut self) -> Vec<u8> {
        self.at = 0;
        let mut buffer = std::mem::take(&mut self.bytes);
        buffer.clear();
        buffer
    }
}

/// A greeting that was answered, and what both have agreed on once its proof has come.
#[derive(Debug)]
pub(super) struct AnsweredGreeting {
    pub(super) challenge: Challenge,
    pub(super) features: Features,
    pub(super) is_peer: bool,
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stage: ConnectionStage,
    /// When it came to this stage.
    pub(super) stage_since_ms: u64,
    /// When it was accepted, or begun.
    pub(super) since_ms: u64,
    /// Let in only to be told that there is no room.
    pub(super) refused: bool,
    /// This side has connected: what comes are answers.
    pub(super) is_ours: bool,
    /// Who connected is another instance.
    pub(super) is_peer: bool,
    /// What it may do, once it has proved who it is; or if there is nothing to prove.
    pub(super) access: Access,
    /// Its place among those that have not been greeted or have proved nothing.
    pub(super) stranger: Option<UnprovenSlot>,
    /// Bytes of another protocol that were taken from it while it was a stranger.
    pub(super) stranger_bytes: usize,
    /// What it has to prove, and what comes of that.
    pub(super) asked: Option<AnsweredGreeting>,
    /// What this side has to prove, of a connection that it has begun, and then what it was answered.
    pub(super) caller: Option<Caller>,
    pub(super) proving: Option<Box<HelloAck>>,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,

    pub(super) received: ReceiveBuffer,
    /// Bytes that must have been received before the next frame is whole; zero: not known, look.
    pub(super) need: usize,
    /// When the frame at the front of what was received began to come.
    pub(super) frame_since_ms: u64,
    /// Bytes of a refused frame that are still to come and are thrown away.
    pub(super) pass_by: usize,
    /// Bytes of the buffer that are counted as held by large frames.
    pub(super) large_bytes: usize,
    /// A read may bring something.
    pub(super) readable: bool,
    /// A read will find the end behind the last bytes, and the system will not say so again.
    pub(super) read_closed: bool,
    /// The end was found, at this time.
    pub(super) ended_ms: Option<u64>,
    /// When bytes last came.
    pub(super) last_ms: u64,

    pub(super) out: Vec<u8>,
    /// It takes several answers in one frame.
    pub(super) gathers: bool,
    /// Whether `out` ends with answers that others may join. Frames are ended before `out` is sent.
    pub(super) gathering: AnswerGathering,
    /// Bytes of `out` that are sent.
    pub(super) sent: usize,
    /// A write may take something.
    pub(super) writable: bool,
    /// When the peer last took something, or there was nothing to take.
    pub(super) send_since_ms: u64,
    /// Requests handed over and not yet answered; one of a foreign protocol, if it waits for anything.
    pub(super) in_flight: u32,
    /// Of a foreign protocol: nothing is taken from it until its service says so.
    pub(super) held: bool,
    /// Of a foreign protocol: its service has more to say once there is room.
    pub(super) has_more: bool,

    /// Bytes that its service keeps for it.
    pub(super) kept_bytes: usize,
    /// Its requests that wait for a record, each with the bytes that this takes; those of one id together.
    pub(super) waits: BTreeMap<RequestId, Vec<WaitingLoad>>,
    /// All of these.
    pub(super) waits_load: WaitingLoad,
    /// What of it is counted as waiting.
    pub(super) load: WaitingLoad,
    /// The connections of its token have much waiting.
    pub(super) is_crowded: bool,

    /// It is in the queue of those that want a turn.
    pub(super) queued: bool,
    /// It is in the list of those that have something to send.
    pub(super) dirty: bool,
    /// It cannot go on: it is closed, with this reason, before this turn ends.
    pub(super) doomed: Option<CloseReason>,
}

impl Connection {
    pub(super) fn new(now_ms: u64, refused: bool) -> Self {
        Connection {
            stage: ConnectionStage::Fresh,
            stage_since_ms: now_ms,
            since_ms: now_ms,
            refused,
            is_ours: false,
            is_peer: false,
            access: Access::All,
            stranger: None,
            stranger_bytes: 0,
            asked: None,
            caller: None,
            proving: None,
            decoder: Decoder::before_hello(),
            encoder: Encoder::default(),
            received: ReceiveBuffer::default(),
            need: 0,
            frame_since_ms: now_ms,
            pass_by: 0,
            large_bytes: 0,
            readable: false,
            read_closed: false,
            ended_ms: None,
            last_ms: now_ms,
            out: Vec::new(),
            gathers: false,
            gathering: AnswerGathering::default(),
            sent: 0,
            writable: true,
            send_since_ms: now_ms,
            in_flight: 0,
            held: false,
            has_more: false,
            kept_bytes: 0,
            waits: BTreeMap::new(),
            waits_load: WaitingLoad::default(),
            load: WaitingLoad::default(),
            is_crowded: false,
            queued: false,
            dirty: false,
            doomed: None,
        }
    }

    /// One that this side has begun to open: nothing can be sent before the system says so.
    pub(super) fn calling(now_ms: u64) -> Self {
        let calling = Connection::new(now_ms, false);
        Connection { stage: ConnectionStage::Calling, is_ours: true, writable: false, ..calling }
    }

    pub(super) fn told(&mut self, ready: IoReadiness) {
        self.readable |= ready.readable || ready.read_closed;
        self.read_closed |= ready.read_closed;
        self.writable |= ready.writable;
        if ready.dead {
            self.doomed.get_or_insert(CloseReason::Broken);
        }
    }

    /// What both sides have agreed on.
    pub(super) fn agree(&mut self, version: u8, features: Features) {
        self.decoder = Decoder::agreed(version, features);
        self.gathers = features.has(Features::GATHER);
    }

    /// Ends the frame to which answers were added.
    pub(super) fn close_frame(&mut self) {
        self.gathering.close(&self.encoder, &mut self.out);
    }

    /// Bytes that wait to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Whether it has not been greeted, or has not proved what it must.
    pub(super) fn is_stranger(&self) -> bool {
        self.stranger.is_some()
    }

    /// What waits here.
    pub(super) fn waiting(&self) -> WaitingLoad {
        if self.is_ours || self.is_peer {
            return WaitingLoad::default();
        }
        let received = self.received.len().max(self.large_bytes);
        let WaitingLoad { bytes, waits } = self.waits_load;
        WaitingLoad { bytes: received + self.unsent() + self.kept_bytes + bytes, waits }
    }

    /// A request waits for a record, which takes so much.
    pub(super) fn begin_wait(&mut self, request: RequestId, load: WaitingLoad) {
        self.waits.entry(request).or_default().push(load);
        self.waits_load = WaitingLoad {
            bytes: self.waits_load.bytes + load.bytes,
            waits: self.waits_load.waits + load.waits,
        };
    }

    /// A request is answered. Whether it was one that waited.
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

    /// Whether a whole frame may have been received.
    pub(super) fn has_frame(&self) -> bool {
        self.received.len() > 0 && self.received.len() >= self.need
    }

    /// Whether nothing is to be taken from it until answers are sent.
    pub(super) fn is_blocked(&self, limits: &Limits, unsent_total: usize) -> bool {
        // What is to be sent here is bounded by who says it: to read does not add to it, and what is read may be a lease.
        if self.is_ours {
            return false;
        }
        let is_crowded =
            (unsent_total > limits.unsent_bytes_total_max / 2 || self.is_crowded) && !self.is_peer;
        let unsent_max = if is_crowded { 0 } else { limits.unsent_bytes_max };
        self.held || self.unsent() > unsent_max || self.in_flight >= limits.in_flight_max
    }

    /// Whether it has something to do in the next turn.
    pub(super) fn wants_turn(&self, limits: &Limits, unsent_total: usize) -> bool {
        if self.doomed.is_some() {
            return false;
        }
        let can_read = self.readable && self.ended_ms.is_none();
        if self.is_closing() {
            return can_read;
        }
        (can_read || self.has_frame() || self.has_more) && !self.is_blocked(limits, unsent_total)
    }

    /// Whether the peer has said that it sends no more and all that it asked is answered.
    pub(super) fn is_finished(&self) -> bool {
        self.ended_ms.is_some()
            && self.unsent() == 0
            && (self.is_closing() || (self.in_flight == 0 && !self.has_frame()))
    }

    /// When patience with it ends if nothing happens, and what it is closed for then.
    pub(super) fn deadline(&self, limits: &Limits, unsent_total: usize) -> Option<(u64, CloseReason)> {
        if let ConnectionStage::Closing(why) = self.stage {
            return Some((self.stage_since_ms + limits.linger_ms, why));
        }
        if self.stage == ConnectionStage::Calling {
            return Some((self.stage_since_ms + limits.call_time_out_ms, CloseReason::NoAnswer));
        }
        if self.is_stranger() {
            // Whatever it sends, and whether or not it takes what it is told.
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
        let frame_begun = self.received.len() > 0 || self.pass_by > 0;
        if frame_begun && !self.has_frame() && !self.is_blocked(limits, unsent_total) {
            let frame_bytes = self.need.max(self.pass_by) as u64;
            let time_out_ms = limits.frame_time_out_ms + frame_bytes / FRAME_BYTES_PER_MS_MIN;
            return Some((self.frame_since_ms + time_out_ms, CloseReason::FrameTimeOut));
        }
        if self.stage == ConnectionStage::Foreign {
            // Clients of such protocols keep connections that they do not use, and are not used to losing them. The
            // system's keep-alive finds those whose machine is gone.
            return None;
        }
        (self.in_flight == 0).then_some((self.last_ms + limits.idle_time_out_ms, CloseReason::Idle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unproven::{Origin, UnprovenBounds, UnprovenConnections};

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

    fn place() -> UnprovenSlot {
        UnprovenConnections::new(UnprovenBounds { all_max: 1, origin_max: 1 })
            .enter((), Origin::of(None, false))
    }

    fn talking() -> Connection {
        Connection { stage: ConnectionStage::Talking, ..Connection::new(1000, false) }
    }

    #[test]
    fn every_state_in_which_only_the_peer_can_act_has_a_deadline() {
        let deadline = |connection: Connection| connection.deadline(&LIMITS, 0);
        let stranger = |connection| Connection { stranger: Some(place()), ..connection };
        assert_eq!(deadline(stranger(Connection::new(1000, false))), Some((1005, CloseReason::HelloTimeOut)));
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
    fn a_stranger_has_so_long_from_its_accept_whatever_it_sends() {
        let deadline = |connection: Connection| connection.deadline(&LIMITS, 0);
        let at = |stage| Connection { stage, stranger: Some(place()), ..Connection::new(1000, false) };
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
    fn who_waits_for_an_answer_is_not_idle() {
        assert_eq!(Connection { in_flight: 1, ..talking() }.deadline(&LIMITS, 0), None);
    }

    #[test]
    fn unread_answers_and_requests_in_flight_block() {
        let reading = || Connection { readable: true, ..talking() };
        assert!(reading().wants_turn(&LIMITS, 0));
        assert!(!Connection { in_flight: 3, ..reading() }.wants_turn(&LIMITS, 0));
        let unsent = |bytes| Connection { out: vec![0; bytes], ..reading() };
        assert!(unsent(100).wants_turn(&LIMITS, 100) && !unsent(101).wants_turn(&LIMITS, 101));
        assert!(!unsent(1).wants_turn(&LIMITS, 501), "all together have too much");
        assert!(unsent(0).wants_turn(&LIMITS, 501), "it has no part in that");
    }

    #[test]
    fn what_is_left_is_kept_when_the_front_is_moved_away() {
        let mut received = ReceiveBuffer { bytes: vec![1, 2, 3, 4], at: 3 };
        received.compact();
        assert_eq!((received.rest(), received.len()), (&[4][..], 1));
    }
}
