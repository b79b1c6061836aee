//! Procedures over a simulated store: clients whose steps interleave, that die between any two effects, beside sweeps.

mod actor;
mod draws;
mod listing;
mod open_transactions;
mod rule_model;
mod rules;
mod simulation;
mod versions;
mod world;
