//! Frames on the manager's port. The manager answers the requests that every endpoint of a cluster supports (Hello, Ping, MapGet, SessionOpen) and
//! control requests. A request for a record is answered with the map, which names the primary.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;
use zerohop_partition::limits::SESSION_IDLE_MS;
use zerohop_wire::auth::{Access, Challenge, Guard};
use zerohop_wire::ids::{InstanceId, MapEpoch, PartitionEpoch};
use zerohop_wire::messages::{Admin, ClusterId, Hello, HelloAck, Pong, SessionOpened};
use zerohop_wire::{
    AuthFault, BadRequestReason, DecodeResult, Decoder, Encoder, Envelope, Failure, Features, HEADER_BYTES,
    Message, choose_version,
};

use super::cluster;
use super::connection_guard::ManagerConnectionGuard;
use super::shared::ManagerShared;
use super::stream::Stream;
use crate::access::permits_request;
use crate::control_job::{ControlJob, ReplyTo};
use crate::limits::{
    ADMIN_IN_FLIGHT_MAX, FRAME_TIME_OUT, IDLE_TIME_OUT, JOBS_RETRY_MS, LINGER, MANAGER_BODY_BYTES_MAX,
    OUT_BYTES_MAX, RECEIVING_BYTES_MAX, SEND_TIME_OUT,
};

/// Number of bytes read at a time.
const READ_BYTES: usize = 16 << 10;

/// The manager's state of one connection, without its socket.
struct Conversation<'s> {
    shared: &'s ManagerShared,
    decoder: Decoder,
    encoder: Encoder,
    greeted: bool,
    /// The connection has no TLS although TLS is required.
    lacks_required_tls: bool,
    /// The permissions of the connection after its greeting.
    access: Access,
    /// The pending proof, and the features that both sides have agreed on.
    proving: Option<(Challenge, Features)>,
    /// The peer is another manager: what follows are not frames.
    is_agent: bool,
    /// The epoch of the peer's map.
    epoch: MapEpoch,
    /// Number of unanswered control requests.
    in_flight: usize,
    answers: mpsc::Sender<(Envelope, Vec<u8>)>,
    /// Bytes of an incomplete frame, as counted in [`ManagerShared::receiving`].
    receiving: usize,
    /// Frames to send.
    out: Vec<u8>,
    /// The connection is closed once all frames are sent.
    ends: bool,
}

/// Serves one connection until it ends.
pub(super) async fn serve(visitor: &ManagerConnectionGuard, mut stream: Stream) {
    let shared = &visitor.shared;
    let (sender, mut answers) = mpsc::channel(ADMIN_IN_FLIGHT_MAX);
    let mut peer = Conversation::new(shared, sender);
    peer.lacks_required_tls = stream.lacks_required_tls(shared);
    // The buffer has no capacity while nothing arrives: most connections are idle.
    let mut received = Vec::new();
    let mut due = visitor.due;
    let mut is_known = false;
    loop {
        let used = peer.process_frames(&received);
        received.drain(..used);
        if peer.greeted && !std::mem::replace(&mut is_known, true) {
            visitor.is_known();
        }
        let had_room = peer.out.len() < OUT_BYTES_MAX;
        if !peer.out.is_empty() {
            let by = Instant::now() + SEND_TIME_OUT;
            let by = if is_known { by } else { by.min(due) };
            match timeout_at(by, stream.write_and_flush(&peer.out)).await {
                Ok(Ok(())) => peer.out = Vec::new(),
                _ => return,
            }
        }
        if peer.ends {
            return discard_until_closed(stream).await;
        }
        if peer.is_agent {
            // A manager sends nothing before it has received the answer: otherwise the peer is not a manager.
            return if received.is_empty() {
                cluster::serve_peer(shared, stream).await
            } else {
                drop(stream)
            };
        }
        if used > 0 && peer.greeted {
            due = Instant::now() + if received.is_empty() { IDLE_TIME_OUT } else { FRAME_TIME_OUT };
        }
        if !had_room {
            continue;
        }
        if received.is_empty() {
            received = Vec::new();
        }
        tokio::select! {
            ready = timeout_at(due, stream.readable()) => match ready {
                Ok(Ok(())) => {}
                // A peer that waits for an answer is not idle.
                Err(_) if peer.in_flight > 0 && received.is_empty() => {
                    due = Instant::now() + IDLE_TIME_OUT;
                    continue;
                }
                _ => return,
            },
            // The peer's state has a sender, so the channel never closes.
            Some((envelope, encoded)) = answers.recv() => {
                peer.admin_answered(&envelope, &encoded);
                continue;
            }
        }
        let begins = received.is_empty();
        received.reserve(READ_BYTES);
        match stream.try_read_buf(&mut received) {
            Ok(0) => return,
            Ok(_) if begins && peer.greeted => due = Instant::now() + FRAME_TIME_OUT,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Reads for a short time and discards the bytes: closing with unread bytes would make the system drop the sent ones.
async fn discard_until_closed(mut stream: Stream) {
    let drain = async {
        stream.shutdown().await?;
        let mut discarded = [0; 4096];
        while stream.read(&mut discarded).await? > 0 {}
        Ok::<(), std::io::Error>(())
    };
    // The connection is closed in every case.
    drop(timeout(LINGER, drain).await);
}

impl<'s> Conversation<'s> {
    fn new(shared: &'s ManagerShared, answers: mpsc::Sender<(Envelope, Vec<u8>)>) -> Self {
        Conversation {
            shared,
            decoder: Decoder::before_hello(),
            encoder: Encoder::default(),
            greeted: false,
            lacks_required_tls: false,
            access: Access::All,
            proving: None,
            is_agent: false,
            epoch: MapEpoch(0),
            in_flight: 0,
            answers,
            receiving: 0,
            out: Vec::new(),
            ends: false,
        }
    }

    /// Processes every complete frame, until there is much to send; returns the number of processed bytes.
    fn process_frames(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        let mut expanded = Vec::new();
        self.receives(0);
        while !self.ends && !self.is_agent && at < bytes.len() && self.out.len() < OUT_BYTES_MAX {
            match self.decoder.decode(&bytes[at..]) {
                DecodeResult::Need(need) => {
                    self.reserve_frame(&bytes[at..], need);
                    break;
                }
                DecodeResult::Frame { frame, used } => {
                    let envelope = frame.envelope;
                    match frame.message(&mut expanded) {
                        Ok(message) => self.handle_frame(&envelope, &message),
                        Err(failure) => self.fail(&envelope, failure),
                    }
                    at += used;
                }
                DecodeResult::Refused { envelope, is_answer, failure, used } => {
                    if !is_answer {
                        self.fail(&envelope, failure);
                    }
                    at += used;
                }
                DecodeResult::Broken(broken) => {
                    if let Some((envelope, failure)) = broken.last_answer() {
                        self.fail(&envelope, failure);
                    }
                    self.ends = true;
                }
            }
        }
        if self.ends { bytes.len() } else { at }
    }

    /// Checks the length of an incomplete frame. It gets no memory if only an instance would accept it, or if it exceeds the limit of all
    /// connections.
    fn reserve_frame(&mut self, bytes: &[u8], need: usize) {
        let length = need.saturating_sub(HEADER_BYTES);
        let failure = if length > MANAGER_BODY_BYTES_MAX {
            Failure::FrameTooLong { length: length as u64, limit: MANAGER_BODY_BYTES_MAX as u32 }
        } else if need > READ_BYTES && self.shared.receiving.get() + need > RECEIVING_BYTES_MAX {
            Failure::Busy { retry_after_ms: JOBS_RETRY_MS }
        } else {
            return self.receives(need);
        };
        if let Some(envelope) = self.decoder.envelope(bytes) {
            self.fail(&envelope, failure);
        }
        self.ends = true;
    }

    /// Counts the bytes of an incomplete frame.
    fn receives(&mut self, bytes: usize) {
        let others = self.shared.receiving.get() - self.receiving;
        self.shared.receiving.set(others + bytes);
        self.receiving = bytes;
    }

    fn handle_frame(&mut self, envelope: &Envelope, message: &Message<'_>) {
        if !self.greeted {
            return match (message, self.proving.take()) {
                (Message::Hello(hello), None) => self.handle_hello(envelope, hello),
                (Message::Prove(prove), Some((challenge, features))) => match challenge.accept(prove) {
                    Ok(access) => {
                        self.answer(envelope, &Message::Proved);
                        self.access = access;
                        self.complete_greeting(features);
                    }
                    Err(failure) => self.refuse(envelope, failure),
                },
                (_, None) => self.refuse(envelope, BadRequestReason::HelloExpected.into()),
                (_, Some(_)) => self.refuse(envelope, BadRequestReason::ProofExpected.into()),
            };
        }
        let map_epoch = self.shared.history.borrow().map().epoch();
        let permitted =
            permits_request(self.shared.history.borrow().map(), self.access, envelope.keyspace, message);
        if let Err(failure) = permitted {
            return self.fail(envelope, failure);
        }
        match message {
            Message::Ping(ping) => {
                self.epoch = ping.map_epoch;
                self.answer(envelope, &Message::Pong(Pong { map_epoch, now: self.shared.now() }));
            }
            Message::SessionOpen(_) => {
                let idle_ms = u32::try_from(SESSION_IDLE_MS).unwrap_or(u32::MAX);
                let opened = SessionOpened { session: self.shared.new_session(), idle_ms };
                self.answer(envelope, &Message::SessionOpened(opened));
            }
            Message::MapGet(get) => {
                let since = self.shared.history.borrow().since(get.since);
                self.epoch = since.epoch;
                self.answer(envelope, &Message::Map(since.as_message()));
            }
            Message::Admin(admin) => self.forward(envelope, admin),
            Message::Read { .. }
            | Message::Scan(_)
            | Message::Chunks(_)
            | Message::Changes(_)
            | Message::Compare(_)
            | Message::Snapshot(_)
            | Message::Write { .. }
            | Message::Batch(_)
            | Message::Transact(_)
            | Message::Stage(_) => {
                let since = self.shared.history.borrow().since(self.epoch);
                self.epoch = since.epoch;
                self.fail(
                    envelope,
                    Failure::WrongOwner { epoch: since.epoch, delta: Cow::Owned(since.encoded) },
                );
            }
            _ => self.fail(envelope, BadRequestReason::Unexpected.into()),
        }
    }

    fn handle_hello(&mut self, envelope: &Envelope, hello: &Hello<'_>) {
        let (ack, challenge) = match self.answer_hello(hello) {
            Ok(answer) => answer,
            Err(failure) => {
                log_refused_version(hello, &failure);
                return self.refuse(envelope, failure);
            }
        };
        self.answer(envelope, &Message::HelloAck(ack));
        self.epoch = hello.map_epoch;
        self.encoder = Encoder { version: ack.version, ..Encoder::default() };
        match challenge {
            Some(challenge) => {
                self.decoder = Decoder::before_proof(ack.version);
                self.proving = Some((challenge, ack.features));
            }
            None => self.complete_greeting(ack.features),
        }
    }

    fn answer_hello(&self, hello: &Hello<'_>) -> Result<(HelloAck, Option<Challenge>), Failure<'static>> {
        let version = choose_version(hello.version_min, hello.version_max)?;
        if self.lacks_required_tls {
            return Err(Failure::AuthFailed { fault: AuthFault::TlsWanted });
        }
        let mut proofs = self.shared.proofs.borrow_mut();
        if proofs.is_some() {
            // Unauthenticated connections learn nothing about the cluster.
            Guard::admits(hello)?;
        }
        let cluster = self.shared.cluster.get();
        if hello.cluster != ClusterId::default() && hello.cluster != cluster {
            return Err(Failure::OtherCluster);
        }
        let agent = if self.shared.cluster_handle().is_some() { Features::AGENT } else { Features(0) };
        let mut ack = HelloAck {
            version,
            features: Features(Features::LZ4.0 | agent.0).common(hello.features),
            // Zero means no instance: instance ids start at one.
            instance: InstanceId(0),
            cluster,
            incarnation: self.shared.about.incarnation,
            map_epoch: self.shared.history.borrow().map().epoch(),
            now: self.shared.now(),
            ..HelloAck::default()
        };
        let challenge = proofs.as_mut().map(|proofs| proofs.guard.challenge(hello, &mut ack)).transpose()?;
        Ok((ack, challenge))
    }

    fn complete_greeting(&mut self, features: Features) {
        self.decoder = Decoder::with_version(self.encoder.version, features);
        // A client with a token is not a manager.
        self.is_agent = features.has(Features::AGENT) && self.access == Access::All;
        self.greeted = true;
    }

    fn refuse(&mut self, envelope: &Envelope, failure: Failure<'_>) {
        self.fail(envelope, failure);
        self.ends = true;
    }

    fn forward(&mut self, envelope: &Envelope, admin: &Admin<'_>) {
        let busy = Failure::Busy { retry_after_ms: JOBS_RETRY_MS };
        if self.in_flight >= ADMIN_IN_FLIGHT_MAX {
            return self.fail(envelope, busy);
        }
        let reply = ReplyTo::Here { envelope: *envelope, sender: self.answers.clone() };
        match self.shared.jobs.try_send(ControlJob {
            encoded: admin.encoded.to_vec(),
            access: self.access,
            reply,
        }) {
            Ok(()) => self.in_flight += 1,
            Err(_) => self.fail(envelope, busy),
        }
    }

    fn admin_answered(&mut self, envelope: &Envelope, encoded: &[u8]) {
        self.in_flight -= 1;
        self.answer(envelope, &Message::AdminAnswer(Admin { encoded }));
    }

    fn fail(&mut self, envelope: &Envelope, failure: Failure<'_>) {
        self.answer(envelope, &Message::Answer(Err(failure)));
        // Before the greeting the connection ends.
        self.ends |= !self.greeted;
    }

    fn answer(&mut self, to: &Envelope, message: &Message<'_>) {
        let envelope =
            Envelope { partition_epoch: PartitionEpoch(0), time_out_ms: 0, read_lock: false, ..*to };
        if let Err(failure) = self.encoder.encode(&envelope, message, &mut self.out) {
            let encoded = self.encoder.encode(&envelope, &Message::Answer(Err(failure)), &mut self.out);
            assert!(encoded.is_ok(), "an error without a payload always fits a frame");
        }
    }
}

/// Logs that a program is refused because of its version. Once for each version: it will try again and again.
fn log_refused_version(hello: &Hello<'_>, failure: &Failure<'_>) {
    static LAST: AtomicU16 = AtomicU16::new(0);
    let Failure::UnsupportedVersion { min, max } = failure else { return };
    let theirs = u16::from_le_bytes([hello.version_min, hello.version_max]);
    if LAST.swap(theirs, Ordering::Relaxed) != theirs {
        warn!(
            name = hello.name,
            "a program of another version is refused: it speaks versions {} to {} of the protocol, and this node {min} to {max}",
            hello.version_min,
            hello.version_max
        );
    }
}

impl Drop for Conversation<'_> {
    fn drop(&mut self) {
        self.receives(0);
    }
}
