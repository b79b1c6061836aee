//! A service with predictable answers.

use zerohop_wire::blob::BlobStamp;
use zerohop_wire::checksum::crc32c;
use zerohop_wire::ids::*;
use zerohop_wire::messages::*;
use zerohop_wire::{Envelope, Failure, Message};

use super::super::*;
use zerohop_wire::messages::Insert;

/// When [`FakeEcho`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerTime {
    /// At once.
    AtOnce,
    /// At the end of the batch, last request first.
    BatchBackwards,
    /// After this many milliseconds, in the order of the request ids with reversed bits.
    After(u64),
    /// When the reactor stops.
    Never,
}

/// Answers a lookup with its key, `repeat` times over, in pieces of `piece_bytes` if that is set; an `Insert` with its value's length. Ping with the time.
#[derive(Debug)]
pub(crate) struct FakeEcho {
    pub(crate) when: AnswerTime,
    pub(crate) repeat: usize,
    pub(crate) piece_bytes: Option<usize>,
    waiting: Vec<(u64, RequestToken, Vec<u8>)>,
    deadline_ms: Option<u64>,
    pub(crate) requests: u64,
    pub(crate) batches: u64,
    pub(crate) maintenances: u64,
    pub(crate) closed: Vec<ConnectionId>,
    /// Connections that it has opened, and their answers: the instance, or nothing.
    pub(crate) links: Vec<ConnectionId>,
    pub(crate) peer_connected: Vec<Option<InstanceId>>,
    /// Messages of other instances.
    pub(crate) received: Vec<PartitionId>,
    /// Its time must not be earlier than the arrival of an event.
    pub(crate) is_punctual: bool,
    /// The time of the last request.
    pub(crate) requested_ms: u64,
}

impl FakeEcho {
    pub(crate) fn new(when: AnswerTime) -> Self {
        FakeEcho {
            when,
            repeat: 1,
            piece_bytes: None,
            waiting: Vec::new(),
            deadline_ms: None,
            requests: 0,
            batches: 0,
            maintenances: 0,
            closed: Vec::new(),
            links: Vec::new(),
            peer_connected: Vec::new(),
            received: Vec::new(),
            is_punctual: false,
            requested_ms: 0,
        }
    }

    fn answer(&self, token: RequestToken, key: &[u8], replies: &mut Replies<'_>) {
        let bytes = key.repeat(self.repeat);
        if let Some(piece_bytes) = self.piece_bytes {
            let pieces: Vec<&[u8]> = bytes.chunks(piece_bytes).collect();
            let stamp = BlobStamp { id: 3, generation: 4 };
            let apart = Outcome::ChunkMultiBuffer {
                version: Timestamp(1),
                stamp,
                pieces: &pieces,
                crc: Some(crc32c(&bytes)),
            };
            return replies.answer(token, PartitionEpoch(9), &Message::Answer(Ok(apart)));
        }
        let outcome = Outcome::Value { version: Timestamp(1), length: bytes.len() as u64, bytes: &bytes };
        replies.answer(token, PartitionEpoch(9), &Message::Answer(Ok(outcome)));
    }

    fn answer_waiting(&mut self, replies: &mut Replies<'_>) {
        for (_, token, key) in std::mem::take(&mut self.waiting) {
            self.answer(token, &key, replies);
        }
    }
}

/// Notices of a test to [`FakeEcho`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FakeEchoNotice {
    AnswerAll,
    DropRequest,
    /// Connect to the instance at this port.
    Call(u16),
    /// Send a message to the instance that was called last.
    Send,
    Stop,
}

impl Service for FakeEcho {
    type Notice = FakeEchoNotice;

    fn hello(
        &mut self,
        _: ConnectionId,
        hello: &Hello<'_>,
        now: ClockSample,
    ) -> Result<HelloAck, Failure<'static>> {
        if hello.cluster.0 == [0xbb; 16] {
            return Err(Failure::Unauthorized);
        }
        Ok(HelloAck {
            now: Timestamp::from_millis(now.unix_ms),
            instance: InstanceId(7),
            cluster: ClusterId([7; 16]),
            ..HelloAck::default()
        })
    }

    fn request(
        &mut self,
        token: RequestToken,
        envelope: &Envelope,
        message: Message<'_>,
        now: ClockSample,
        replies: &mut Replies<'_>,
    ) {
        assert_eq!(token.request, envelope.request);
        self.requests += 1;
        self.requested_ms = now.elapsed_ms;
        let key = match message {
            Message::Read { read: RecordRead { key, .. }, .. } => key,
            Message::Write {
                write: RecordWrite { change: WriteChange::Insert(Insert { value, .. }), .. },
                ..
            } => {
                let outcome = Outcome::Done { version: Timestamp(2), number: value.len() as u64 };
                return replies.answer(token, PartitionEpoch(9), &Message::Answer(Ok(outcome)));
            }
            _ => {
                let now = Timestamp::from_millis(now.unix_ms);
                return replies.answer(
                    token,
                    PartitionEpoch(0),
                    &Message::Pong(Pong { now, ..Pong::default() }),
                );
            }
        };
        match self.when {
            AnswerTime::AtOnce => self.answer(token, key, replies),
            _ => self.waiting.push((now.elapsed_ms, token, key.to_vec())),
        }
        if let AnswerTime::After(wait_ms) = self.when {
            self.deadline_ms.get_or_insert(now.elapsed_ms + wait_ms);
        }
    }

    fn time_matters(&self) -> bool {
        self.is_punctual
    }

    fn peer(
        &mut self,
        _: ConnectionId,
        envelope: &Envelope,
        message: Message<'_>,
        _: ClockSample,
        _: &mut Replies<'_>,
    ) {
        assert_eq!(message, super::peer_message());
        self.received.push(envelope.partition);
    }

    fn peer_connected(
        &mut self,
        _: ConnectionId,
        answer: Result<&HelloAck, Failure<'_>>,
        _: ClockSample,
        _: &mut Replies<'_>,
    ) {
        self.peer_connected.push(answer.ok().map(|ack| ack.instance));
    }

    fn notice(&mut self, notice: FakeEchoNotice, _: ClockSample, replies: &mut Replies<'_>) -> Flow {
        match notice {
            FakeEchoNotice::AnswerAll => self.answer_waiting(replies),
            FakeEchoNotice::DropRequest => {
                self.waiting.drain(..).for_each(|(_, token, _)| replies.drop_request(token))
            }
            FakeEchoNotice::Call(port) => {
                let hello = Hello { cluster: ClusterId([7; 16]), ..super::hello_message() };
                self.links.extend(replies.connect(([127, 0, 0, 1], port).into(), &hello).ok());
            }
            FakeEchoNotice::Send => {
                let id = self.links[self.links.len() - 1];
                replies.send(id, &super::envelope(0), &super::peer_message());
            }
            FakeEchoNotice::Stop => return Flow::Stop,
        }
        Flow::Continue
    }

    fn next_deadline_ms(&self) -> Option<u64> {
        self.deadline_ms
    }

    fn tick(&mut self, now: ClockSample, replies: &mut Replies<'_>) {
        let AnswerTime::After(wait_ms) = self.when else { return };
        self.waiting.sort_by_key(|(_, token, _)| token.request.0.reverse_bits());
        let waiting = std::mem::take(&mut self.waiting);
        let (due, later): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(since_ms, ..)| since_ms + wait_ms <= now.elapsed_ms);
        self.deadline_ms = later.iter().map(|(since_ms, ..)| since_ms + wait_ms).min();
        self.waiting = later;
        due.iter().for_each(|(_, token, key)| self.answer(*token, key, replies));
    }

    fn end_of_batch(&mut self, _: ClockSample, replies: &mut Replies<'_>) {
        self.batches += 1;
        if self.when == AnswerTime::BatchBackwards {
            self.waiting.reverse();
            self.answer_waiting(replies);
        }
    }

    fn maintain(&mut self, _: ClockSample) -> Maintenance {
        self.maintenances += 1;
        Maintenance::Done
    }

    fn closed(&mut self, connection: ConnectionId) {
        self.closed.push(connection);
    }

    fn stopping(&mut self, _: ClockSample, replies: &mut Replies<'_>) {
        self.answer_waiting(replies);
    }
}
