//! The S3 protocol over the layer of objects.
//!
//! ```text
//!   HTTP ──▶ server (limits, request ids) ──▶ s3s (signatures, documents) ──▶ api ──▶ procedures of the layer ──▶ Store
//! ```
//!
//! s3s parses requests and checks signatures. It does not verify checksums, neither of headers nor of trailers, and has no
//! limit on the time of a body: both are done here. A body is written and verified before its object appears.
//!
//! `metrics` counts what the server does. `GatewayMonitor` serves it at an address of its own.
//!
//! `access` knows the users, and each operation checks their permissions before it does anything. Requests without a signature may do
//! what the policy of their bucket permits (`policy`, `public_access`).

mod access;
mod api;
mod base64;
mod bucket_tags;
mod checksum;
mod connection_state;
mod cors;
mod metrics;
mod policy;
mod public_access;
mod server;

pub use access::{ClusterUsers, FixedUsers, Grant, GrantError, User, UserFound, Users, grants_key};
pub use server::{ConnectionLimits, GatewayMonitor, GatewayOptions, S3Gateway};
