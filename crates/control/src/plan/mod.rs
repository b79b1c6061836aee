//! Where replicas should be, and the next steps towards it.

mod ring;

pub use ring::Ring;
