//! Objects over simulated clusters: gateways drive the procedures of the layer over `ClusterStore` and the session of a simulated client,
//! while nodes and gateways die, regions are split, and partitions move.
//!
//! ```text
//!   clusters ──> gateway, uploads ──> procedures of objects ──> ClusterStore, RecordStore ──> session ──> crates/sim
//!                    └──> history ──> register    an order of the calls on each object
//!   conclude ──> rest                             no body leaks, and none is missing
//! ```
#![cfg(debug_assertions)]
#![expect(clippy::print_stdout, reason = "tells which seed found what")]

mod clusters;
mod gateway;
mod history;
mod pausing_store;
mod register;
mod rest;
mod uploads;
