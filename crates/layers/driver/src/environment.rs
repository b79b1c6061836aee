//! The clock and the random bytes of a store.

use std::fmt::Debug;

/// Where a store reads the time and draws random bytes. The product has [`SystemEnvironment`]; a simulator has one of its own.
pub trait Environment: Debug + Send + Sync {
    /// Milliseconds since 1970.
    fn unix_ms(&self) -> u64;

    /// Random bytes, for ids.
    fn random(&self) -> [u8; 16];
}

/// The clock and the random bytes of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn unix_ms(&self) -> u64 {
        zerohop_system::clock::unix_ms()
    }

    /// # Panics
    /// If the system has none.
    fn random(&self) -> [u8; 16] {
        zerohop_system::entropy::random_bytes().expect("the system has random bytes")
    }
}
