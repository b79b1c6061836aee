//! TLS between a socket and what is said over it.
//!
//! ```text
//!   socket ──ciphertext──> Tls ──what was said──> frames, HTTP, RESP
//!   socket <──ciphertext── Tls <──what to say──── answers
//! ```
//!
//! [`Tls`] is a filter: whoever owns a socket that does not wait hands it over for each read and write, and keeps the say
//! over readiness and time. It opens nothing and reads no file. TLS 1.3 only, by rustls with the provider `ring`; only the
//! server shows a certificate, as clients prove who they are by the cluster's secret or a token, inside.

mod config;
mod error;
mod filter;
pub mod limits;
#[cfg(test)]
mod tests;

pub use config::{ClientTls, ServerTls, host_of};
pub use error::{ConfigError, fault_of};
pub use filter::Tls;

/// The first byte of a connection that begins with a TLS handshake: what tells it from every other that a port takes.
pub const FIRST_BYTE: u8 = 0x16;
