//! The simulator finds mutants, and a seed can be repeated.
//!
//! `cargo xtask test` runs one mutant of each kind (a canary); with `ZEROHOP_PLANTS=all`, as in
//! `cargo xtask soak`, all are run.

mod planted_blobs;
mod planted_cluster;
mod planted_node;
mod replay;

/// Whether all mutants are run, not only canaries.
fn runs_all() -> bool {
    std::env::var("ZEROHOP_PLANTS").is_ok_and(|value| value == "all")
}
