//! Procedures over a simulated store: clients whose steps interleave, whose answers are lost, and whose leases lapse.

mod clients;
mod machine;
mod model;
mod simulation;
mod whole_queue;
mod world;
