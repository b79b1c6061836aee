//! How the keys of a keyspace are divided and indexed.

/// The order of a keyspace's keys. It is fixed at creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyOrder {
    /// By hash: partitions are equal ranges of hashes, and keys have no order.
    #[default]
    Hashed,
    /// By bytes: keys can be scanned in order.
    Ordered,
}

impl KeyOrder {
    /// The name of the order by bytes, in place of that of a hash function.
    pub const ORDERED: &'static str = "ordered";
    /// The name of the order by hash, where the hash function is named apart.
    pub const HASHED: &'static str = "hashed";
}
