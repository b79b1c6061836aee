//! Procedures over a simulated store: clients whose steps interleave, whose answers are lost, and that are replaced.

mod delivery;
mod machine;
mod members;
mod model;
mod poppers;
mod producers;
mod readers;
mod simulation;
mod world;
