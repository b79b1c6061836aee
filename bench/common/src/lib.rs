//! What the benchmarks share: the line that says where and when they ran, and medians over rounds.

mod machine;
mod statistics;

pub use machine::Machine;
pub use statistics::Spread;
