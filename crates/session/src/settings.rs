//! Settings of a session.

use std::sync::Arc;

use zerohop_placement::Address;
use zerohop_wire::auth::Credential;

use crate::limits::{
    CONNECTIONS_DEFAULT, OPERATION_BYTES_DEFAULT, OPERATIONS_DEFAULT, OPERATIONS_MAX, WINDOW_FRAMES_DEFAULT,
};

/// Settings of a session. All fields may be changed.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Name of the client in the server's logs; longer names are cut to what the greeting can carry.
    pub name: String,
    /// Addresses from which the session requests the first map: any managers or instances.
    pub endpoints: Vec<Arc<str>>,
    /// The manager that receives control requests; `None`: any manager that is up.
    pub manager: Option<Address>,
    /// Seed of the jitter, different for every client.
    pub jitter_seed: u64,
    /// Time limit for opening a connection, and again for its greeting.
    pub connect_us: u64,
    /// A frame without an answer is sent again after this time; it doubles with every attempt.
    pub attempt_us: u64,
    /// After this time of silence the session sends a ping on a connection with frames in flight; after the same time again, it closes the
    /// connection.
    pub quiet_us: u64,
    /// The pause after a first failed connection.
    pub backoff_us_min: u64,
    /// The maximum pause after failed connections.
    pub backoff_us_max: u64,
    /// See [`crate::limits::CONNECTIONS_DEFAULT`]; at least 2.
    pub connections_max: usize,
    /// See [`crate::limits::WINDOW_FRAMES_DEFAULT`]; at least 1.
    pub window_frames: u32,
    /// See [`crate::limits::OPERATIONS_DEFAULT`]; at most [`crate::limits::OPERATIONS_MAX`].
    pub operations_max: usize,
    /// See [`crate::limits::OPERATION_BYTES_DEFAULT`].
    pub operation_bytes_max: usize,
    /// Bodies of at least this length are compressed, if the server agrees.
    pub compress_from_bytes: Option<usize>,
    /// Whether bodies carry a checksum.
    pub body_checksum: bool,
    /// The credential with which the client authenticates itself; `None`: the client knows no secret, and requires no proof from a server.
    pub credential: Option<Credential>,
}

impl SessionSettings {
    /// The defaults.
    #[must_use]
    pub fn new(endpoints: &[Address], jitter_seed: u64) -> Self {
        Self {
            name: "zerohop".to_owned(),
            endpoints: endpoints.iter().map(|address| address.as_str().into()).collect(),
            manager: None,
            jitter_seed,
            connect_us: 3_000_000,
            attempt_us: 1_000_000,
            quiet_us: 2_000_000,
            backoff_us_min: 5_000,
            backoff_us_max: 1_000_000,
            connections_max: CONNECTIONS_DEFAULT,
            window_frames: WINDOW_FRAMES_DEFAULT,
            operations_max: OPERATIONS_DEFAULT,
            operation_bytes_max: OPERATION_BYTES_DEFAULT,
            compress_from_bytes: None,
            body_checksum: true,
            credential: None,
        }
    }

    /// Limits every field to its permitted range.
    pub(crate) fn bounded(mut self) -> Self {
        self.connections_max = self.connections_max.max(2);
        self.window_frames = self.window_frames.max(1);
        self.operations_max = self.operations_max.clamp(1, OPERATIONS_MAX);
        self.attempt_us = self.attempt_us.max(1);
        self.quiet_us = self.quiet_us.max(1);
        let mut end = self.name.len().min(zerohop_wire::limits::CLIENT_NAME_BYTES_MAX);
        while !self.name.is_char_boundary(end) {
            end -= 1;
        }
        self.name.truncate(end);
        self
    }
}
