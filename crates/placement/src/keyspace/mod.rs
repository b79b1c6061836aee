//! The configuration of a keyspace: its name, partitions, copies and durability.
//!
//! Name, partitions with their separators, hash, seed and chunk size determine the placement of data. They are fixed at creation, but splits
//! add partitions and separators. The other settings can be altered while the keyspace is in use ([`KeyspaceConfig::check_alteration`]).

use crate::hash::{HashKind, UnknownHash};
use crate::limits::{
    BATCH_BYTES_MAX, BATCH_DELAY_US_MAX, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, INTERVAL_MS_MAX, REPLICAS_MAX,
};
use crate::partitions::PartitionCount;
use crate::separators::Separators;
use zerohop_wire::blob::routed;

mod durability;
mod error;
mod history;
mod key_order;
mod name;

pub use durability::{Durability, UnknownDurability};
pub use error::ConfigError;
pub use history::ChangeHistory;
pub use key_order::KeyOrder;
pub use name::{KeyspaceName, NameError};

/// The configuration of a keyspace. All fields may be set freely; [`KeyspaceConfig::check`] says whether they are consistent, and no map accepts a
/// configuration that fails it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceConfig {
    /// Its name, which is unique in the cluster.
    pub name: KeyspaceName,
    /// Number of partitions.
    pub partitions: PartitionCount,
    /// How keys are divided among partitions and indexed.
    pub order: KeyOrder,
    /// The keys at which the partitions of an ordered keyspace begin, which are its regions; none in a hashed one.
    pub separators: Separators,
    /// The function that hashes keys. In an ordered keyspace it places nothing: only locks are named by hashes.
    pub hash: HashKind,
    /// Drawn at creation. It changes hashes and the order of instances, so that the same key is placed elsewhere in another keyspace.
    pub seed: u64,
    /// Total number of copies.
    pub replicas: u8,
    /// Number of copies that must store a write before it is acknowledged.
    pub min_in_sync: u8,
    /// When a copy counts as stored.
    pub durability: Durability,
    /// Size of a blob's chunks in bytes: a power of two.
    pub chunk_bytes: u32,
    /// How long small requests to one target may wait for others, in microseconds; zero sends each at once. A call may override this.
    pub batch_delay_us: u32,
    /// A batch of at least this many bytes is sent before its delay is over.
    pub batch_bytes: u32,
    /// How long changes are kept for readers that watch the keyspace.
    pub history: ChangeHistory,
}

impl KeyspaceConfig {
    /// The default configuration of a keyspace of this name, in a cluster of three nodes or more; see [`Self::fitted_to`].
    pub fn new(name: KeyspaceName, seed: u64) -> KeyspaceConfig {
        KeyspaceConfig {
            name,
            partitions: PartitionCount::DEFAULT,
            order: KeyOrder::Hashed,
            separators: Separators::NONE,
            hash: HashKind::Xxh3,
            seed,
            replicas: 3,
            min_in_sync: 2,
            durability: Durability::DEFAULT,
            chunk_bytes: 1 << 20,
            batch_delay_us: 0,
            batch_bytes: 64 << 10,
            history: ChangeHistory::NONE,
        }
    }

    /// The same configuration with keys in byte order, in one partition.
    #[must_use]
    pub fn ordered(self) -> KeyspaceConfig {
        self.divided_at(Separators::NONE)
    }

    /// The same configuration with keys in byte order, in the regions that these separators divide.
    #[must_use]
    pub fn divided_at(self, separators: Separators) -> KeyspaceConfig {
        let partitions = separators.regions();
        KeyspaceConfig { order: KeyOrder::Ordered, partitions, separators, ..self }
    }

    /// The same configuration with the separators of `present`, if both are ordered and this one has none: an alteration need not repeat them.
    #[must_use]
    pub fn with_separators_of(self, present: &KeyspaceConfig) -> KeyspaceConfig {
        match (self.order, present.order) {
            (KeyOrder::Ordered, KeyOrder::Ordered) if self.separators.is_empty() => {
                self.divided_at(present.separators.clone())
            }
            _ => self,
        }
    }

    /// The hash of a key: its place in a hashed keyspace. In every keyspace it is the key's lock key, by which transactions lock it.
    pub fn hash_of(&self, key: &[u8]) -> u64 {
        self.hash.hash(self.seed, routed(key))
    }

    /// How keys are placed, as users name it: the hash function, or [`KeyOrder::ORDERED`].
    #[must_use]
    pub fn placement(&self) -> &'static str {
        match self.order {
            KeyOrder::Ordered => KeyOrder::ORDERED,
            KeyOrder::Hashed => self.hash.name(),
        }
    }

    /// The same configuration with keys placed in this way, which [`Self::placement`] names. A keyspace that
    /// becomes ordered gets one partition.
    ///
    /// # Errors
    /// There is no such hash function.
    pub fn placed_by(self, placement: &str) -> Result<KeyspaceConfig, UnknownHash> {
        match placement {
            KeyOrder::ORDERED if self.order == KeyOrder::Ordered => Ok(self),
            KeyOrder::ORDERED => Ok(self.ordered()),
            hash => {
                let (order, separators) = (KeyOrder::Hashed, Separators::NONE);
                Ok(KeyspaceConfig { order, separators, hash: hash.parse()?, ..self })
            }
        }
    }

    /// The keyspace `default`, which always exists and uses the slots of Redis Cluster.
    pub fn default_keyspace(seed: u64) -> KeyspaceConfig {
        KeyspaceConfig {
            hash: HashKind::Crc16,
            ..KeyspaceConfig::new(KeyspaceName::default_keyspace(), seed)
        }
    }

    /// Limits the number of copies to the number of nodes: on one node, writes that wait for two copies would wait forever.
    pub fn fitted_to(mut self, nodes: usize) -> KeyspaceConfig {
        let nodes = u8::try_from(nodes).unwrap_or(u8::MAX).max(1);
        self.replicas = self.replicas.min(nodes);
        self.min_in_sync = self.min_in_sync.min(self.replicas);
        self
    }

    /// The same configuration with twice as many partitions.
    ///
    /// # Errors
    /// If the number of partitions is already the maximum, or the keyspace is ordered.
    pub fn doubled(&self) -> Result<KeyspaceConfig, ConfigError> {
        if self.order == KeyOrder::Ordered {
            return Err(ConfigError::OrderedSplit);
        }
        let requested = self.partitions.get() * 2;
        let partitions =
            PartitionCount::new(requested).map_err(|_| ConfigError::CannotSplit { requested })?;
        let doubled = KeyspaceConfig { partitions, ..self.clone() };
        doubled.check().map(|()| doubled)
    }

    /// Checks that the fields are consistent and within their limits.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.order == KeyOrder::Ordered {
            let regions = self.separators.regions();
            if self.partitions != regions {
                let (requested, regions) = (self.partitions.get(), regions.get());
                return Err(ConfigError::OrderedPartitions { requested, regions });
            }
            if self.hash != HashKind::Xxh3 {
                return Err(ConfigError::OrderedHash { requested: self.hash });
            }
        }
        if self.order == KeyOrder::Hashed && !self.separators.is_empty() {
            return Err(ConfigError::HashedSeparators);
        }
        let slots = u32::from(crate::hash::SLOTS);
        if self.hash == HashKind::Crc16 && self.partitions.get() > slots {
            return Err(ConfigError::MorePartitionsThanSlots { partitions: self.partitions });
        }
        if !(1..=REPLICAS_MAX).contains(&self.replicas) {
            return Err(ConfigError::ReplicaTable { requested: self.replicas });
        }
        if !(1..=self.replicas).contains(&self.min_in_sync) {
            return Err(ConfigError::MinInSync { requested: self.min_in_sync, replicas: self.replicas });
        }
        if let Durability::Interval { ms } = self.durability
            && !(1..=INTERVAL_MS_MAX).contains(&ms)
        {
            return Err(ConfigError::Interval { requested_ms: ms });
        }
        if !self.chunk_bytes.is_power_of_two()
            || !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&self.chunk_bytes)
        {
            return Err(ConfigError::ChunkBytes { requested: self.chunk_bytes });
        }
        if self.batch_delay_us > BATCH_DELAY_US_MAX {
            return Err(ConfigError::BatchDelay { requested_us: self.batch_delay_us });
        }
        if !(1..=BATCH_BYTES_MAX).contains(&self.batch_bytes) {
            return Err(ConfigError::BatchBytes { requested: self.batch_bytes });
        }
        if !self.history.is_valid() {
            return Err(ConfigError::History { requested: self.history });
        }
        Ok(())
    }

    /// Checks that a keyspace with this configuration may be altered to `next`: that `next` is valid, and that the change is permitted.
    pub fn check_alteration(&self, next: &KeyspaceConfig) -> Result<(), ConfigError> {
        let fixed = [
            ("name", self.name == next.name),
            ("order of keys", self.order == next.order),
            ("set of separators", self.separators == next.separators),
            ("partitions", self.partitions == next.partitions),
            ("hash", self.hash == next.hash),
            ("seed", self.seed == next.seed),
            ("chunk size", self.chunk_bytes == next.chunk_bytes),
        ];
        match fixed.into_iter().find(|(_, same)| !same) {
            Some((setting, _)) => Err(ConfigError::Fixed { setting }),
            None => next.check(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> KeyspaceConfig {
        KeyspaceConfig::new("papers".parse().unwrap(), 7)
    }

    fn refused(change: impl FnOnce(&mut KeyspaceConfig)) -> ConfigError {
        let mut config = config();
        change(&mut config);
        config.check().unwrap_err()
    }

    #[test]
    fn defaults_are_valid_and_match_the_design() {
        let config = config();
        config.check().unwrap();
        assert_eq!((config.partitions.get(), config.replicas, config.min_in_sync), (256, 3, 2));
        let default = KeyspaceConfig::default_keyspace(1);
        default.check().unwrap();
        assert_eq!(
            (default.name.as_str(), default.hash, default.partitions.get()),
            ("default", HashKind::Crc16, 256)
        );
    }

    #[test]
    fn fitting_to_few_nodes_leaves_no_write_waiting_for_ever() {
        for (nodes, replicas, min_in_sync) in [(0, 1, 1), (1, 1, 1), (2, 2, 2), (3, 3, 2), (1000, 3, 2)] {
            let fitted = config().fitted_to(nodes);
            fitted.check().unwrap();
            assert_eq!((fitted.replicas, fitted.min_in_sync), (replicas, min_in_sync), "{nodes} nodes");
        }
    }

    #[test]
    fn each_bound_is_refused_by_its_own_error() {
        use ConfigError as E;
        assert_eq!(refused(|c| c.replicas = 0), E::ReplicaTable { requested: 0 });
        assert_eq!(refused(|c| c.replicas = 9), E::ReplicaTable { requested: 9 });
        assert_eq!(refused(|c| c.min_in_sync = 0), E::MinInSync { requested: 0, replicas: 3 });
        assert_eq!(refused(|c| c.min_in_sync = 4), E::MinInSync { requested: 4, replicas: 3 });
        assert_eq!(
            refused(|c| c.durability = Durability::Interval { ms: 0 }),
            E::Interval { requested_ms: 0 }
        );
        assert_eq!(
            refused(|c| c.durability = Durability::Interval { ms: 60_001 }),
            E::Interval { requested_ms: 60_001 }
        );
        for requested in [0, 4095, 12 << 10, 16 << 20] {
            assert_eq!(refused(|c| c.chunk_bytes = requested), E::ChunkBytes { requested });
        }
        assert_eq!(refused(|c| c.batch_delay_us = 1_000_001), E::BatchDelay { requested_us: 1_000_001 });
        assert_eq!(refused(|c| c.batch_bytes = 0), E::BatchBytes { requested: 0 });
        assert_eq!(refused(|c| c.batch_bytes = (8 << 20) + 1), E::BatchBytes { requested: (8 << 20) + 1 });
        for (ms, bytes) in
            [(0, 1 << 20), (1_000, 0), (1_000, 1), (7 * 86_400_000 + 1, 1 << 20), (1_000, u32::MAX)]
        {
            let requested = ChangeHistory { ms, bytes };
            assert_eq!(refused(|c| c.history = requested), E::History { requested });
        }
        for history in [ChangeHistory::NONE, ChangeHistory::of_ms(1), ChangeHistory::of_ms(7 * 86_400_000)] {
            assert_eq!(KeyspaceConfig { history, ..config() }.check(), Ok(()));
        }
        let partitions = PartitionCount::new(32_768).unwrap();
        assert_eq!(
            refused(|c| (c.hash, c.partitions) = (HashKind::Crc16, partitions)),
            E::MorePartitionsThanSlots { partitions }
        );
    }

    #[test]
    fn placement_names_hash_functions_and_the_order() {
        for name in HashKind::ALL.map(HashKind::name).into_iter().chain(["ordered"]) {
            let mut small = config();
            small.partitions = PartitionCount::new(4).unwrap();
            let placed = small.placed_by(name).unwrap();
            assert_eq!(placed.placement(), name);
            assert_eq!(placed.partitions.get(), if name == "ordered" { 1 } else { 4 });
            placed.check().unwrap();
        }
        assert_eq!(config().placed_by("order").unwrap_err().name, "order");
        let ordered = config().ordered();
        assert_eq!(ordered.doubled(), Err(ConfigError::OrderedSplit));
        assert_eq!(ordered.check_alteration(&config()), Err(ConfigError::Fixed { setting: "order of keys" }));
        let partitions = PartitionCount::new(2).unwrap();
        let two = KeyspaceConfig { partitions, ..config().ordered() };
        assert_eq!(two.check(), Err(ConfigError::OrderedPartitions { requested: 2, regions: 1 }));
        let hash = HashKind::Sdbm;
        let sdbm = KeyspaceConfig { hash, ..config().ordered() };
        assert_eq!(sdbm.check(), Err(ConfigError::OrderedHash { requested: hash }));
    }

    #[test]
    fn separators_are_fixed_and_of_ordered_keyspaces() {
        let separators = Separators::new(["b", "m", "x"]).unwrap();
        let config = config().divided_at(separators.clone());
        config.check().unwrap();
        assert_eq!(config.partitions.get(), 4);
        let hashed = KeyspaceConfig { order: KeyOrder::Hashed, ..config.clone() };
        assert_eq!(hashed.check(), Err(ConfigError::HashedSeparators));
        let fewer = KeyspaceConfig { partitions: PartitionCount::new(2).unwrap(), ..config.clone() };
        assert_eq!(fewer.check(), Err(ConfigError::OrderedPartitions { requested: 2, regions: 4 }));
        let other = config.clone().divided_at(Separators::new(["b", "m", "y"]).unwrap());
        assert_eq!(config.check_alteration(&other), Err(ConfigError::Fixed { setting: "set of separators" }));
        assert_eq!(config.clone().placed_by("ordered"), Ok(config.clone()));
        let hashed = config.placed_by("fnv1a").unwrap();
        assert!(hashed.separators.is_empty());
    }

    #[test]
    fn settings_that_place_data_cannot_be_altered() {
        let old = config();
        let altered = |change: fn(&mut KeyspaceConfig)| {
            let mut next = old.clone();
            change(&mut next);
            old.check_alteration(&next)
        };
        assert_eq!(altered(|c| c.replicas = 5), Ok(()));
        assert_eq!(altered(|c| c.durability = Durability::Sync), Ok(()));
        assert_eq!(altered(|c| c.batch_delay_us = 1000), Ok(()));
        assert_eq!(altered(|c| c.replicas = 1), Err(ConfigError::MinInSync { requested: 2, replicas: 1 }));
        let words = |requested, replicas| ConfigError::MinInSync { requested, replicas }.to_string();
        assert_eq!(words(2, 1), "min-in-sync 2 with 1 replica: ask for min-in-sync 1, or for more replicas");
        assert_eq!(
            words(4, 3),
            "min-in-sync 4 with 3 replicas: ask for min-in-sync 1 to 3, or for more replicas"
        );
        assert_eq!(words(0, 3), "min-in-sync 0 with 3 replicas: ask for min-in-sync 1 to 3");
        assert_eq!(altered(|c| c.seed += 1), Err(ConfigError::Fixed { setting: "seed" }));
        assert_eq!(altered(|c| c.hash = HashKind::Sdbm), Err(ConfigError::Fixed { setting: "hash" }));
        assert_eq!(
            altered(|c| *c = c.clone().ordered()),
            Err(ConfigError::Fixed { setting: "order of keys" })
        );
        assert_eq!(altered(|c| c.chunk_bytes *= 2), Err(ConfigError::Fixed { setting: "chunk size" }));
        assert_eq!(
            altered(|c| c.partitions = PartitionCount::new(512).unwrap()),
            Err(ConfigError::Fixed { setting: "partitions" })
        );
        assert_eq!(
            altered(|c| c.name = "other".parse().unwrap()),
            Err(ConfigError::Fixed { setting: "name" })
        );
    }
}
