//! Procedures over a simulated store: clients whose steps interleave, whose answers are lost, and that are replaced.

mod machine;
mod model;
mod producers;
mod readers;
mod simulation;
mod world;
