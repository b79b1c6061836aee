//! Exceptions from rules, with reasons. An entry that is no longer needed is a violation itself.

/// Rust and Python files of more than [`super::length::LINES_MAX`] lines: path and reason.
pub const LONG_FILES: &[(&str, &str)] = &[];

/// Files that may contain `unsafe`: path and reason. Each block still says `// SAFETY:`.
pub const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/resp/tests/allocation.rs", "an allocator that counts is an `unsafe impl`; a test only"),
    ("crates/wire/tests/allocation.rs", "an allocator that counts is an `unsafe impl`; a test only"),
    ("crates/reactor/tests/allocation.rs", "an allocator that counts is an `unsafe impl`; a test only"),
    (
        "bench/monitor/src/librados.rs",
        "the C library of a peer, loaded while the benchmark runs: its own programs are no fair clients",
    ),
    (
        "python/src/memory.rs",
        "memory of arrays of Python is read and written where it stands, while Python is let go: by its address",
    ),
];
