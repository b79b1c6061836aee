//! A gateway over a store in memory, and requests byte by byte.

mod bodies;
mod memory;
mod races;
mod signed;
mod signing;
