//! A gateway over a store in memory, and requests byte by byte.

mod access;
mod bodies;
mod browse;
mod control_characters;
mod cors;
mod error_documents;
mod lifecycle;
mod limits;
mod memory;
mod metrics;
mod public;
mod races;
mod ranges;
mod signing;
mod test_gateway;
mod unset;
mod unsupported;
mod versions;
