//! The fixed settings of a store, in a text file at the top of its folder, `store.txt`:
//!
//! ```text
//! zerohop embedded store, format 1
//! instances 2
//! partitions 256
//! seed 00c0ffee00c0ffee
//! ```
//!
//! Four lines, each ended by a line feed, in this order; numbers are decimal, the seed has 16 hexadecimal digits. An ordered store is of format 2,
//! has one instance and one partition, and a fifth line `order bytes`. The lines determine where a key is
//! stored, so they never change: a partition belongs to the instance `partition * instances / partitions`, whose folder is `instance-NN`.
//! `docs/formats/store.md` states the bytes.

#[cfg(test)]
mod documented;

use std::path::Path;

pub use zerohop_disk::EMBEDDED_SETTINGS_FILE as SETTINGS_FILE;
use zerohop_disk::{FilesDisk, LOCK_FILE};
use zerohop_engine::disk::{Disk, OpenMode};
use zerohop_placement::limits::INTERVAL_MS_MAX;
use zerohop_placement::{
    ClusterMap, Durability, HashKind, KeyOrder, KeyspaceConfig, KeyspaceName, PartitionCount, ReplicaGroup,
    partition_of,
};
use zerohop_system::entropy::random_u64;
use zerohop_wire::escaped::shown_path;
use zerohop_wire::ids::PartitionEpoch;
use zerohop_wire::plurals::counted;

use super::error::StoreError;
use super::instance::instance_id;
use super::limits::{INSTANCES_DEFAULT_MAX, INSTANCES_MAX, SETTINGS_BYTES_MAX};
use super::options::StoreOptions;

/// Its name until it is complete.
const UNFINISHED_FILE: &str = "store.tmp";
const FIRST_LINE_START: &str = "zerohop embedded store, format ";
const FORMAT: &str = "1";
/// The format of ordered stores.
const FORMAT_ORDERED: &str = "2";
const ORDER_LINE: &str = "order bytes\n";

/// The fixed settings of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreSettings {
    pub(super) instances: u16,
    pub(super) partitions: PartitionCount,
    /// The seed of the hash that chooses a key's partition.
    pub(super) seed: u64,
    pub(super) order: KeyOrder,
}

impl StoreSettings {
    /// Refuses an existing folder that is not empty and has no store. Changes nothing.
    pub(super) fn check_folder(root: &Path) -> Result<(), StoreError> {
        let Ok(entries) = std::fs::read_dir(root) else { return Ok(()) };
        let mut foreign = None;
        for name in entries.flatten().map(|entry| entry.file_name()) {
            if name == SETTINGS_FILE {
                return Ok(());
            }
            if name != LOCK_FILE && name != UNFINISHED_FILE {
                foreign = Some(name);
            }
        }
        match foreign {
            None => Ok(()),
            Some(name) => Err(wrong(
                root,
                format!(
                    "this folder is not empty (it contains {}) and has no {SETTINGS_FILE}, so it is not a zerohop \
                     store; name another",
                    shown_path(Path::new(&name))
                ),
            )),
        }
    }

    /// Reads the settings of the store, or writes those of a new one. `disk` has the store's folder and its lock.
    pub(super) fn load(
        disk: &mut FilesDisk,
        root: &Path,
        options: &StoreOptions,
    ) -> Result<Self, StoreError> {
        let names = disk.list("").map_err(zerohop_engine::EngineError::from)?;
        let path = root.join(SETTINGS_FILE);
        let Some(found) = names.iter().find(|name| name.name == SETTINGS_FILE) else {
            let settings = StoreSettings::new(options).map_err(|reason| wrong(root, reason))?;
            let is_left = names.iter().any(|name| name.name == UNFINISHED_FILE);
            write(disk, is_left, settings.encode().as_bytes()).map_err(zerohop_engine::EngineError::from)?;
            return Ok(settings);
        };
        let text =
            read(disk, found.bytes.min(SETTINGS_BYTES_MAX)).map_err(zerohop_engine::EngineError::from)?;
        let settings = StoreSettings::decode(&text).map_err(|reason| wrong(&path, reason))?;
        settings.agrees_with(options).map_err(|reason| wrong(&path, reason))?;
        Ok(settings)
    }

    /// The partition of a key.
    pub(super) fn partition_of(&self, key: &[u8]) -> u32 {
        partition_of(HashKind::Xxh3.hash(self.seed, key), self.partitions).get()
    }

    /// The instance that owns a partition.
    pub(super) fn instance_of(&self, partition: u32) -> u16 {
        // The result is below `instances`, because the partition is below `partitions`.
        (u64::from(partition) * u64::from(self.instances) / u64::from(self.partitions.get())) as u16
    }

    /// The map of the store: one keyspace, each partition a replica group of its instance.
    pub(super) fn map(&self, durability: zerohop_engine::Durability) -> Result<ClusterMap, String> {
        let durability = match durability {
            zerohop_engine::Durability::Memory => Durability::Memory,
            zerohop_engine::Durability::Interval { ms } => {
                Durability::Interval { ms: ms.clamp(1, INTERVAL_MS_MAX) }
            }
            zerohop_engine::Durability::Sync => Durability::Sync,
        };
        let name = KeyspaceName::default_keyspace();
        let StoreSettings { partitions, seed, order, .. } = *self;
        let config = KeyspaceConfig { partitions, durability, order, ..KeyspaceConfig::new(name, seed) };
        let config = config.fitted_to(1);
        let instances = (0..partitions.get()).map(|partition| instance_id(self.instance_of(partition)));
        let groups = instances.map(|instance| ReplicaGroup::of_one(PartitionEpoch(1), instance)).collect();
        ClusterMap::of_local_store(config, &groups).map_err(|error| error.to_string())
    }

    fn new(options: &StoreOptions) -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let order = if options.ordered { KeyOrder::Ordered } else { KeyOrder::Hashed };
        let default = if options.ordered { PartitionCount::ONE } else { PartitionCount::DEFAULT };
        let partitions = options.partitions.unwrap_or(default);
        if options.ordered && partitions != default {
            return Err(format!(
                "{} of an ordered store, which has one: leave the number out",
                counted(partitions.get(), "partition")
            ));
        }
        let wanted = cores.min(usize::from(INSTANCES_DEFAULT_MAX)).min(partitions.get() as usize) as u16;
        let instances = options.instances.unwrap_or(wanted);
        check_instances(instances, partitions)?;
        Ok(StoreSettings { instances, partitions, seed: random_u64()?, order })
    }

    fn encode(&self) -> String {
        let StoreSettings { instances, partitions, seed, order } = self;
        let (format, order) = match order {
            KeyOrder::Hashed => (FORMAT, ""),
            KeyOrder::Ordered => (FORMAT_ORDERED, ORDER_LINE),
        };
        format!(
            "{FIRST_LINE_START}{format}\ninstances {instances}\npartitions {partitions}\nseed {seed:016x}\n{order}"
        )
    }

    fn decode(text: &str) -> Result<Self, String> {
        let first = text.lines().next().unwrap_or_default();
        let order = match first.strip_prefix(FIRST_LINE_START) {
            Some(FORMAT) => KeyOrder::Hashed,
            Some(FORMAT_ORDERED) => KeyOrder::Ordered,
            Some(other) => {
                return Err(format!(
                    "the store is of format {other:?}, this program knows formats {FORMAT} and {FORMAT_ORDERED}: use \
                     the zerohop that wrote it"
                ));
            }
            None => {
                return Err(
                    "this is not the settings file of a zerohop store; name another folder".to_owned()
                );
            }
        };
        let damaged = || {
            format!(
                "the file is damaged: write its lines again (format, instances: the number of instance-NN \
                 folders, partitions, seed) from a copy; it says {text:?}"
            )
        };
        let field = |line: usize, name: &str| -> Option<&str> {
            text.lines().nth(line)?.strip_prefix(name)?.strip_prefix(' ')
        };
        let instances = field(1, "instances").and_then(|n| n.parse().ok()).ok_or_else(damaged)?;
        let partitions: u32 = field(2, "partitions").and_then(|n| n.parse().ok()).ok_or_else(damaged)?;
        let partitions = PartitionCount::new(partitions).map_err(|_| damaged())?;
        let seed = field(3, "seed").and_then(|n| u64::from_str_radix(n, 16).ok()).ok_or_else(damaged)?;
        let settings = StoreSettings { instances, partitions, seed, order };
        let is_divided = order == KeyOrder::Ordered && partitions != PartitionCount::ONE;
        if settings.encode() != text || is_divided || check_instances(instances, partitions).is_err() {
            return Err(damaged());
        }
        Ok(settings)
    }

    fn agrees_with(&self, options: &StoreOptions) -> Result<(), String> {
        let fixed = |what: &str, has: &dyn std::fmt::Display, requested: &dyn std::fmt::Display| {
            Err(format!(
                "the store has {has} {what} permanently, {requested} were asked for: open it without a number, or \
                 copy its data into a new store"
            ))
        };
        if options.ordered && self.order != KeyOrder::Ordered {
            return Err(
                "the keys of the store have no order permanently: open it without `ordered`, or copy its \
                        data into a new store"
                    .to_owned(),
            );
        }
        match (options.instances, options.partitions) {
            (Some(requested), _) if requested != self.instances => {
                fixed("instances", &self.instances, &requested)
            }
            (_, Some(requested)) if requested != self.partitions => {
                fixed("partitions", &self.partitions, &requested)
            }
            _ => Ok(()),
        }
    }
}

fn check_instances(instances: u16, partitions: PartitionCount) -> Result<(), String> {
    let most = u32::from(INSTANCES_MAX).min(partitions.get());
    if instances == 0 || u32::from(instances) > most {
        return Err(format!(
            "{}: ask for 1 to {most} with {}",
            counted(instances, "instance"),
            counted(partitions.get(), "partition")
        ));
    }
    Ok(())
}

fn read(disk: &mut FilesDisk, bytes: u64) -> zerohop_engine::disk::DiskResult<String> {
    let file = disk.open(SETTINGS_FILE, OpenMode::Existing)?;
    let mut text = vec![0; bytes as usize];
    let read = disk.read_at(file, 0, &mut text);
    disk.close(file);
    read.map(|()| String::from_utf8_lossy(&text).into_owned())
}

/// Atomic: the file gets its name after its bytes.
fn write(disk: &mut FilesDisk, is_left: bool, text: &[u8]) -> zerohop_engine::disk::DiskResult<()> {
    if is_left {
        disk.remove(UNFINISHED_FILE)?;
    }
    let file = disk.open(UNFINISHED_FILE, OpenMode::Create)?;
    let written = disk.append(file, text).and_then(|()| disk.sync(file));
    disk.close(file);
    written?;
    disk.rename(UNFINISHED_FILE, SETTINGS_FILE)?;
    disk.sync_dir("")
}

fn wrong(path: &Path, reason: String) -> StoreError {
    StoreError::Settings { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_FORMAT_1: &str =
        "zerohop embedded store, format 1\ninstances 3\npartitions 256\nseed 00c0ffee00c0ffee\n";

    #[test]
    fn format_1_stays_readable() {
        let settings = StoreSettings::decode(OF_FORMAT_1).unwrap();
        let partitions = PartitionCount::DEFAULT;
        assert_eq!(
            settings,
            StoreSettings { instances: 3, partitions, seed: 0x00c0_ffee_00c0_ffee, order: KeyOrder::Hashed }
        );
        assert_eq!(settings.encode(), OF_FORMAT_1);
        assert_eq!(settings.partition_of(b"key"), 179, "a key's partition never changes");
    }

    #[test]
    fn ordered_settings_have_one_partition() {
        let text = "zerohop embedded store, format 2\ninstances 1\npartitions 1\nseed 00c0ffee00c0ffee\norder bytes\n";
        let settings = StoreSettings::decode(text).unwrap();
        let expected = StoreSettings {
            instances: 1,
            partitions: PartitionCount::ONE,
            seed: 0x00c0_ffee_00c0_ffee,
            order: KeyOrder::Ordered,
        };
        assert_eq!((settings, settings.encode().as_str()), (expected, text));
        let map = settings.map(zerohop_engine::Durability::Sync).unwrap();
        let keyspace = map.keyspace(zerohop_placement::map::LOCAL_KEYSPACE).unwrap();
        assert_eq!(keyspace.config().order, KeyOrder::Ordered);
        for (from, to) in [
            ("partitions 1", "partitions 2"),
            ("instances 1", "instances 2"),
            ("order bytes", "order hash"),
            ("order bytes\n", ""),
            ("format 2", "format 1"),
        ] {
            let error = StoreSettings::decode(&text.replace(from, to)).unwrap_err();
            assert!(error.contains("damaged"), "{to}: {error}");
        }
    }

    #[test]
    fn other_text_is_refused_with_a_message() {
        let newer = StoreSettings::decode(&OF_FORMAT_1.replace("format 1", "format 3")).unwrap_err();
        assert!(newer.contains("\"3\"") && newer.contains("use the zerohop that wrote it"), "{newer}");
        assert!(StoreSettings::decode("").unwrap_err().contains("name another folder"));
        for (from, to) in [
            ("instances 3", "instances 0"),
            ("instances 3", "instances 257"),
            ("instances 3", "instances three"),
            ("partitions 256", "partitions 255"),
            ("seed 00", "seed "),
            ("seed 00", "seed 0x"),
            ("ffee\n", "ffee"),
            ("ffee\n", "ffee\nmore\n"),
        ] {
            let error = StoreSettings::decode(&OF_FORMAT_1.replace(from, to)).unwrap_err();
            assert!(error.contains("damaged"), "{to}: {error}");
        }
    }

    #[test]
    fn each_partition_belongs_to_exactly_one_instance() {
        for (instances, partitions) in [(1, 1), (1, 256), (2, 256), (3, 256), (7, 8), (8, 8), (255, 65536)] {
            let partitions = PartitionCount::new(partitions).unwrap();
            let settings = StoreSettings { instances, partitions, seed: 0, order: KeyOrder::Hashed };
            let map = settings.map(zerohop_engine::Durability::DEFAULT).unwrap();
            let mut next = 0;
            for instance in 0..instances {
                let first = next;
                for (_, partition, _) in map.partitions_of(instance_id(instance)) {
                    assert_eq!((partition.0, settings.instance_of(partition.0)), (next, instance));
                    next += 1;
                }
                assert!(next > first);
            }
            assert_eq!(next, partitions.get());
        }
    }

    /// Each message of the shard checks that its key belongs to the partition.
    #[test]
    fn map_places_keys_as_the_settings_do() {
        let settings = StoreSettings::decode(OF_FORMAT_1).unwrap();
        let map = settings.map(zerohop_engine::Durability::Sync).unwrap();
        let keyspace = map.keyspace(zerohop_placement::map::LOCAL_KEYSPACE).unwrap();
        for n in 0..1000u32 {
            assert_eq!(keyspace.partition(&n.to_le_bytes()).0, settings.partition_of(&n.to_le_bytes()));
        }
    }
}
