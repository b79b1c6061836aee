//! The simulator finds what is planted, and a seed can be had again.
//!
//! `cargo xtask test` plays one bug of each kind (a canary); with `ZEROHOP_PLANTS=all`, as in `cargo xtask soak`, all are played.

mod planted_blobs;
mod planted_cluster;
mod planted_node;
mod replay;

/// Whether all planted bugs are looked for, not only canaries.
fn plays_all() -> bool {
    std::env::var("ZEROHOP_PLANTS").is_ok_and(|value| value == "all")
}
