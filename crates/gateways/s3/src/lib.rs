//! The S3 protocol over the layer of objects.
//!
//! ```text
//!   HTTP ──▶ server (limits, request ids) ──▶ s3s (signatures, documents) ──▶ api ──▶ procedures of the layer ──▶ Store
//! ```
//!
//! s3s parses requests and checks signatures. It does not verify checksums, neither of headers nor of trailers, and has no
//! limit on the time of a body: both are done here. A body is written and verified before its object appears.

mod api;
mod base64;
mod checksum;
mod cluster;
mod server;

pub use cluster::{ClusterBodyWriter, ClusterStore};
pub use server::{GatewayOptions, S3Gateway, Secrets};
