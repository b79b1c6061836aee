//! TLS between a socket and the protocols above it.
//!
//! ```text
//!   socket ──ciphertext──> Tls ──plain bytes──> frames, HTTP, RESP
//!   socket <──ciphertext── Tls <──plain bytes── answers
//! ```
//!
//! [`Tls`] is a filter: the owner of a non-blocking socket passes it to each read and write, and
//! remains responsible for readiness and time. The filter opens nothing and reads no file. TLS 1.3
//! only, by rustls with the provider `ring`. The server presents a certificate, and may require one of
//! clients. Clients also authenticate with the cluster's secret or a token over the TLS connection.

mod config;
mod error;
mod filter;
pub mod limits;
#[cfg(test)]
mod tests;

pub use config::{ClientTls, ServerTls, host_of};
pub use error::{ConfigError, expired_of, fault_of, refused_client};
pub use filter::Tls;

/// The first byte of a TLS handshake: no other protocol of a port starts with it.
pub const FIRST_BYTE: u8 = 0x16;
