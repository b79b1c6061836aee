//! The start of a connection on either side: versions, and proofs that both sides know the cluster's secret.

use zerohop_wire::auth::{Access, Caller, Challenge, Guard};
use zerohop_wire::limits::{VERSION_MAX, VERSION_MIN};
use zerohop_wire::messages::{Hello, HelloAck, Prove};
use zerohop_wire::{
    AuthFault, BadRequestReason, Decoder, Encoder, Envelope, Failure, Features, Message, choose_version,
};

use super::connection::{AnsweredGreeting, ConnectionStage};
use super::counters::CloseReason;
use super::driver::{ConnectionId, Driver};
use super::limits::REFUSED_RETRY_MS;
use super::service::Service;
use super::{FEATURES, Reactor, replies};

impl<D: Driver, S: Service> Reactor<D, S> {
    /// Handles the first messages on a connection that this side has opened.
    pub(super) fn handle_greeting(&mut self, id: ConnectionId, message: &Message<'_>) {
        let now_ms = self.now.elapsed_ms;
        let Some(connection) = self.connections.get_mut(id) else { return };
        let (caller, proving) = (connection.caller.take(), connection.proving.take());
        let answer = match (message, &proving) {
            (Message::HelloAck(ack), None) if (VERSION_MIN..=VERSION_MAX).contains(&ack.version) => {
                Caller::check_if_any(caller, ack).map(|prove| (ack, prove))
            }
            (Message::Proved, Some(ack)) => Ok((&**ack, None)),
            (Message::HelloAck(ack), None) => {
                Err(Failure::UnsupportedVersion { min: ack.version, max: ack.version })
            }
            (Message::Answer(Err(failure)), _) => Err(failure.clone()),
            _ => Err(BadRequestReason::Unexpected.into()),
        };
        if let Ok((ack, prove)) = &answer {
            connection.encoder = Encoder { version: ack.version, ..Encoder::default() };
            if let Some(prove) = prove {
                // This side sends nothing else, and notifies no caller, before the peer has accepted the proof.
                connection.decoder = Decoder::before_proof(ack.version);
                connection.proving = Some(Box::new(**ack));
                let prove = Message::Prove(*prove);
                self.connections.queue(&mut self.driver, id, &Envelope::default(), &prove, now_ms);
                return;
            }
            connection.stage = ConnectionStage::Talking;
            connection.stage_since_ms = now_ms;
            connection.decoder = Decoder::with_version(ack.version, ack.features);
        }
        let is_refused = answer.is_err();
        self.batch.touched = true;
        let mut replies = replies(&mut self.connections, &mut self.driver, self.now);
        self.service.peer_connected(id, answer.map(|(ack, _)| ack), self.now, &mut replies);
        if is_refused {
            self.close(id, CloseReason::NoAnswer);
        }
    }

    /// Answers `Hello`; from here on the connection uses the chosen version. If the cluster has a secret, the next frame must be the client's
    /// proof.
    pub(super) fn handle_hello(&mut self, id: ConnectionId, envelope: &Envelope, hello: &Hello<'_>) {
        // Links between instances find a free place where clients do not, once they have authenticated themselves.
        let claims_peer = hello.features.has(Features::PEER) && self.connections.proofs.is_some();
        let refused = self.connections.get(id).is_some_and(|connection| connection.refused.is_some());
        if refused && !claims_peer {
            let failure = Failure::Busy { retry_after_ms: REFUSED_RETRY_MS };
            return self.refuse_and_end(id, envelope, failure, CloseReason::TooMany);
        }
        if self.driver.lacks_required_tls(id) {
            let failure = Failure::AuthFailed { fault: AuthFault::TlsWanted };
            return self.refuse_and_end(id, envelope, failure, CloseReason::NotProved);
        }
        let (ack, challenge) = match self.answer_hello(id, hello) {
            Ok(answer) => answer,
            Err(failure) => {
                let is_about_proof = matches!(failure, Failure::AuthRequired | Failure::AuthFailed { .. });
                let why = if is_about_proof { CloseReason::NotProved } else { CloseReason::Misbehaved };
                return self.refuse_and_end(id, envelope, failure, why);
            }
        };
        // A client that does not name its cluster is not an instance of this one.
        let is_peer = ack.features.has(Features::PEER) && hello.cluster == ack.cluster;
        let (message, now_ms) = (Message::HelloAck(ack), self.now.elapsed_ms);
        let envelope = Envelope { time_out_ms: 0, ..*envelope };
        self.connections.queue(&mut self.driver, id, &envelope, &message, now_ms);
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.stage_since_ms = now_ms;
        connection.encoder = Encoder { version: ack.version, ..Encoder::default() };
        match challenge {
            Some(challenge) => {
                connection.stage = ConnectionStage::Proving;
                connection.expected_proof =
                    Some(AnsweredGreeting { challenge, features: ack.features, is_peer });
                connection.decoder = Decoder::before_proof(ack.version);
            }
            None => {
                (connection.stage, connection.is_peer) = (ConnectionStage::Talking, is_peer);
                connection.set_version(ack.version, ack.features);
                self.connections.set_authenticated(id);
            }
        }
    }

    fn answer_hello(
        &mut self,
        id: ConnectionId,
        hello: &Hello<'_>,
    ) -> Result<(HelloAck, Option<Challenge>), Failure<'static>> {
        let version = choose_version(hello.version_min, hello.version_max)?;
        if self.connections.proofs.is_some() {
            // Unauthenticated connections learn nothing about the cluster.
            Guard::admits(hello)?;
        }
        let mut ack = self.service.hello(id, hello, self.now)?;
        (ack.version, ack.features) = (version, FEATURES.common(hello.features));
        let proofs = self.connections.proofs.as_mut();
        let challenge = proofs.map(|proofs| proofs.guard.challenge(hello, &mut ack)).transpose()?;
        Ok((ack, challenge))
    }

    /// Handles the client's proof, which may be wrong.
    pub(super) fn handle_proof(&mut self, id: ConnectionId, envelope: &Envelope, prove: &Prove) {
        let now_ms = self.now.elapsed_ms;
        let Some(connection) = self.connections.get_mut(id) else { return };
        let accepted = match connection.expected_proof.take() {
            Some(AnsweredGreeting { challenge, features, is_peer }) => {
                challenge.accept(prove).map(|access| (features, is_peer, access))
            }
            None => Err(BadRequestReason::Unexpected.into()),
        };
        let (features, is_peer, access) = match accepted {
            Ok(accepted) => accepted,
            Err(failure) => return self.refuse_and_end(id, envelope, failure, CloseReason::NotProved),
        };
        // A client with a token is not an instance.
        connection.is_peer = is_peer && access == Access::All;
        if connection.refused.is_some() && !connection.is_peer {
            let failure = Failure::Busy { retry_after_ms: REFUSED_RETRY_MS };
            return self.refuse_and_end(id, envelope, failure, CloseReason::TooMany);
        }
        connection.stage = ConnectionStage::Talking;
        connection.stage_since_ms = now_ms;
        connection.set_version(connection.encoder.version, features);
        self.connections.set_authenticated(id);
        self.connections.set_access(id, access);
        let envelope = Envelope { time_out_ms: 0, ..*envelope };
        self.connections.queue(&mut self.driver, id, &envelope, &Message::Proved, now_ms);
    }
}
