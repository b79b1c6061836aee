//! `cargo xtask`: test, fuzz, bench.

fn main() {}
