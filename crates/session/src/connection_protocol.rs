//! What the two ends of a connection have agreed on in the greeting, and the greeting itself.

use zerohop_wire::auth::Caller;
use zerohop_wire::messages::HelloAck;
use zerohop_wire::{Decoder, Encoder, Features};

#[derive(Debug)]
pub(crate) struct ConnectionProtocol {
    pub(crate) encoder: Encoder,
    pub(crate) decoder: Decoder,
    /// The server accepts coalesced frames.
    pub(crate) accepts_coalesced: bool,
    /// The server supports read locks with a time limit and reports them.
    pub(crate) supports_read_locks: bool,
    /// The state of a handshake that has offered a proof, until it is answered.
    pub(crate) caller: Option<Caller>,
    /// The server's reply to the greeting, until the server has accepted the proof.
    pub(crate) proving: Option<Box<HelloAck>>,
}

impl ConnectionProtocol {
    pub(crate) fn before_hello() -> Self {
        Self {
            encoder: Encoder::default(),
            decoder: Decoder::before_hello(),
            accepts_coalesced: false,
            supports_read_locks: false,
            caller: None,
            proving: None,
        }
    }

    /// Accepts the server's reply to the greeting.
    pub(crate) fn agree(&mut self, ack: &HelloAck) {
        self.encoder = Encoder { version: ack.version, ..Encoder::default() };
        self.decoder = Decoder::with_version(ack.version, ack.features);
        self.accepts_coalesced = ack.features.has(Features::COALESCED);
        self.supports_read_locks = ack.features.has(Features::READ_LOCKS);
    }

    /// Returns to the state before the greeting, as the connection is lost. What the server supports stays known.
    pub(crate) fn reset(&mut self) {
        self.encoder = Encoder::default();
        self.decoder = Decoder::before_hello();
        (self.caller, self.proving) = (None, None);
    }
}
