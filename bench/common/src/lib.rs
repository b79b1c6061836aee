//! What the benchmarks share: the line that says where and when they ran, medians over rounds and how they are told, and
//! what children print.

mod machine;
mod markdown;
mod printed;
mod statistics;

pub use machine::Machine;
pub use markdown::table;
pub use printed::Printed;
pub use statistics::Spread;
