//! Mutual proof of knowledge of the cluster's secret at the start of a connection: pure, without a socket or random numbers of its own.
//! `docs/protocols/wire.md` specifies every byte.
//!
//! ```text
//!   Credential::greet ── Hello (method, nonce) ─────────────────────────> Guard::challenge
//!   Caller::check <───── HelloAck (nonce, the server's proof) ──────────── Challenge
//!       └──────────────── Prove (the client's proof) ────────────────────> Challenge::accept
//!                 <────── Proved, or AuthFailed ───────────────────────────┘
//! ```
//!
//! A proof is an HMAC-SHA-256 over the side that proves (client or server) and all messages of both sides: versions, features, cluster, instance
//! and both nonces. A proof is therefore invalid for a second use, for another connection, for the other side, and for a greeting that was changed
//! in transit. The messages that follow are not protected by it: TLS does that.

mod client;
mod mac;
mod nonces;
mod secret;
mod secret_strength;
mod server;
mod token;

pub use client::{Caller, Credential};
pub use nonces::Nonces;
pub use secret::{Secret, SecretError};
pub use server::{Challenge, Guard};
pub use token::{InvalidToken, TOKEN_TEXT_BYTES, Token};

/// No proof is offered or required.
pub const METHOD_NONE: u8 = 0;

/// HMAC-SHA-256 with a key that is derived from the cluster's secret.
pub const METHOD_SECRET: u8 = 1;

/// HMAC-SHA-256 with the key of a token, whose number is in the first 8 bytes of the client's nonce.
pub const METHOD_TOKEN: u8 = 2;

/// The permissions of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Everything: there is no secret, or the client has proved that it knows it.
    #[default]
    All,
    /// The permissions that the map grants to the token of this number.
    Token(u64),
}

#[cfg(test)]
mod tests;
