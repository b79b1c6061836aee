//! The `zerohop` program.

fn main() {}
