//! Proof of knowing the cluster's secret, both ways, at the beginning of a connection: pure, without a socket or a random
//! number of its own. `docs/protocols/wire.md` gives every byte.
//!
//! ```text
//!   Credential::greet ── Hello (method, nonce) ─────────────────────────> Guard::challenge
//!   Caller::check <───── HelloAck (nonce, the server's proof) ──────────── Challenge
//!       └──────────────── Prove (the client's proof) ────────────────────> Challenge::accept
//!                 <────── Proved, or AuthFailed ───────────────────────────┘
//! ```
//!
//! A proof is an HMAC-SHA-256 over who proves (client or server) and everything that both have said: versions, features,
//! cluster, instance and both nonces. So no proof serves twice, for another connection, for the other side, or for a
//! greeting that somebody has changed on the way. What is said afterwards is not protected by it: TLS does that.

mod client;
mod guess;
mod mac;
mod nonces;
mod secret;
mod server;
mod token;

pub use client::{Caller, Credential};
pub use nonces::Nonces;
pub use secret::{Secret, SecretError};
pub use server::{Challenge, Guard};
pub use token::{NotAToken, TOKEN_TEXT_BYTES, Token};

/// No proof is offered, or asked for.
pub const METHOD_NONE: u8 = 0;

/// HMAC-SHA-256 under a key that is made of the cluster's secret.
pub const METHOD_SECRET: u8 = 1;

/// The same under the key of a token, whose number is in the first 8 bytes of the client's nonce.
pub const METHOD_TOKEN: u8 = 2;

/// What a connection may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Everything: there is no secret, or it was proved.
    #[default]
    All,
    /// What the map grants the token of this number.
    Token(u64),
}

#[cfg(test)]
mod tests;
