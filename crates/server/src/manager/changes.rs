//! The effect of a control request on the map, computed without side effects: a delta, or a refusal.

use zerohop_placement::{
    ChangeHistory, ClusterMap, ConfigError, Durability, KeyOrder, Keyspace, KeyspaceConfig, KeyspaceName,
    MapChange, MapDelta, PartitionCount, ReplicaGroup, Separators,
};
use zerohop_wire::admin::{
    KeyspaceDrop, KeyspaceHistory, KeyspaceSettings, KeyspaceStatus, REFUSED_EXISTS, REFUSED_FAILED,
    REFUSED_SETTING, REFUSED_UNKNOWN, RegionSplit,
};
use zerohop_wire::escaped::quoted;
use zerohop_wire::ids::{KeyspaceId, NodeId};
use zerohop_wire::plurals::counted;

use super::change_refusal::{ChangeRefusal, refusal, setting};
use super::keyspace_drop;

/// The context of a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeContext<'m> {
    pub(super) map: &'m ClusterMap,
    /// The node that has all partitions: there is no other node.
    pub(super) node: NodeId,
    /// The node stores everything in memory.
    pub(super) in_memory: bool,
}

/// A decided change.
#[derive(Debug)]
pub(super) struct DecidedChange {
    /// `None`: nothing needs to change.
    pub(super) delta: Option<MapDelta>,
    /// The keyspace after the change, or before its removal.
    pub(super) keyspace: KeyspaceStatus,
}

/// Keyspaces that are being dropped.
pub(super) fn draining_keyspaces(map: &ClusterMap) -> Vec<KeyspaceStatus> {
    let dropping = map.keyspaces().filter(|(_, found)| found.is_dropping());
    dropping.map(|(id, found)| status(id, found.config())).collect()
}

type ChangeDecision = Result<DecidedChange, ChangeRefusal>;

impl ChangeContext<'_> {
    /// Creates a keyspace with this id and seed.
    pub(super) fn create(&self, settings: &KeyspaceSettings, id: KeyspaceId, seed: u64) -> ChangeDecision {
        let name = name(&settings.name)?;
        if let Some((id, found)) = self.map.keyspace_named(name.as_str()) {
            if found.is_dropping() {
                return Err(keyspace_drop::refusal(name.as_str()));
            }
            let reason = format!(
                "there is a keyspace {name} (its id is {id}): alter it, drop it first, or use another name"
            );
            return Err(refusal(REFUSED_EXISTS, reason));
        }
        let mut config = KeyspaceConfig::new(name, seed).fitted_to(self.map.nodes().len());
        if self.in_memory {
            config.durability = Durability::Memory;
        }
        if let Some(replicas) = settings.replicas {
            config.replicas = small(replicas, "replicas")?;
            // Two of three, as in the default, unless the request says otherwise.
            config.min_in_sync = config.replicas.clamp(1, 2);
        }
        let config = self.with(config, settings)?;
        config.check().map_err(setting)?;
        let Some(node) = self.map.node(self.node) else {
            return Err(refusal(REFUSED_FAILED, "the map has lost this node: start it again"));
        };
        let groups = ReplicaGroup::spread(&config, &node.to_node());
        let keyspace = status(id, &config);
        self.decided(MapChange::CreateKeyspace { id, config, groups: groups.into() }, keyspace)
    }

    /// Changes the configuration of a keyspace that is in use.
    pub(super) fn alter(&self, settings: &KeyspaceSettings) -> ChangeDecision {
        let (id, found) = self.find(&settings.name)?;
        if found.is_dropping() {
            return Err(keyspace_drop::refusal(&settings.name));
        }
        if let Some(partitions) =
            settings.partitions.filter(|count| *count != found.config().partitions.get())
        {
            return self.split(settings, (id, found), partitions);
        }
        let mut config = found.config().clone();
        if let Some(replicas) = settings.replicas {
            config.replicas = small(replicas, "replicas")?;
        }
        let config = self.with(config, settings)?;
        found.config().check_alteration(&config).map_err(setting)?;
        let keyspace = status(id, &config);
        if config == *found.config() {
            return Ok(DecidedChange { delta: None, keyspace });
        }
        self.decided(MapChange::AlterKeyspace { id, config }, keyspace)
    }

    /// Splits each partition of a keyspace into two. The request names the new number of partitions, so that a repeated request splits only once.
    fn split(
        &self,
        settings: &KeyspaceSettings,
        (id, found): (KeyspaceId, &Keyspace),
        partitions: u32,
    ) -> ChangeDecision {
        let others = KeyspaceSettings {
            name: settings.name.clone(),
            partitions: settings.partitions,
            ..Default::default()
        };
        if *settings != others {
            return Err(refusal(REFUSED_SETTING, "a split changes nothing else: ask for the rest after it"));
        }
        let config = found.config();
        let doubled = config.doubled().map_err(setting)?;
        if partitions != doubled.partitions.get() {
            let reason = format!(
                "{}: keyspace {} has {}, and a split makes {} of them",
                counted(partitions, "partition"),
                config.name,
                config.partitions,
                doubled.partitions
            );
            return Err(refusal(REFUSED_SETTING, reason));
        }
        self.decided(MapChange::SplitKeyspace(id), status(id, &doubled))
    }

    /// Splits the region that has a key, so that a region begins there. A repeated request splits only once.
    pub(super) fn split_region(&self, request: &RegionSplit) -> ChangeDecision {
        let (id, found) = self.find(&request.keyspace)?;
        if found.is_dropping() {
            return Err(keyspace_drop::refusal(&request.keyspace));
        }
        if found.config().order == KeyOrder::Hashed {
            let reason = format!(
                "keyspace {} is hashed and has no regions: keyspace split divides all its partitions",
                found.config().name
            );
            return Err(refusal(REFUSED_SETTING, reason));
        }
        let share = match request.share {
            None => 128,
            Some(share) => u8::try_from(share)
                .ok()
                .filter(|share| *share > 0)
                .ok_or_else(|| refusal(REFUSED_SETTING, format!("share {share}: ask for 1 to 255")))?,
        };
        let separator: Box<[u8]> = request.separator.clone().into();
        let region = found.partition(&separator);
        let keyspace = status(id, found.config());
        if found.division().separators().iter().any(|known| *known == *separator) {
            return Ok(DecidedChange { delta: None, keyspace });
        }
        if let Some(named) = request.region.filter(|named| *named != region.get()) {
            let reason = format!("the key is in region {region} and not in {named}: list the regions again");
            return Err(refusal(REFUSED_SETTING, reason));
        }
        let mut decided =
            self.decided(MapChange::SplitRegion { keyspace: id, region, separator, share }, keyspace)?;
        if let Some(delta) = &decided.delta {
            let next = self.map.apply(delta)?;
            if let Some(found) = next.keyspace(id) {
                decided.keyspace = status(id, found.config());
            }
        }
        Ok(decided)
    }

    /// Drops a keyspace with all its contents.
    pub(super) fn drop(&self, request: &KeyspaceDrop) -> ChangeDecision {
        let (id, found) = self.find(&request.name)?;
        if ![0, id.0].contains(&request.id) {
            let reason =
                format!("keyspace {} ({}) is gone: {id} has its name by now", request.name, request.id);
            return Err(refusal(REFUSED_UNKNOWN, reason));
        }
        if found.config().name == KeyspaceName::default_keyspace() {
            let reason =
                "the keyspace default is in every cluster and cannot be dropped: remove its records instead";
            return Err(refusal(REFUSED_SETTING, reason));
        }
        let keyspace = status(id, found.config());
        match request.at_once {
            true => self.decided(MapChange::DropKeyspace(id), keyspace),
            false if found.is_dropping() => Ok(DecidedChange { delta: None, keyspace }),
            false => self.decided(MapChange::BeginDropKeyspace(id), keyspace),
        }
    }

    fn find(&self, name: &str) -> Result<(KeyspaceId, &Keyspace), ChangeRefusal> {
        self.map.keyspace_named(name).ok_or_else(|| {
            let names: Vec<&str> =
                self.map.keyspaces().map(|(_, found)| found.config().name.as_str()).take(8).collect();
            refusal(
                REFUSED_UNKNOWN,
                format!("there is no keyspace {}; there is {}", quoted(name.as_bytes()), names.join(", ")),
            )
        })
    }

    /// The configuration with the requested settings, except replicas.
    fn with(
        &self,
        mut config: KeyspaceConfig,
        settings: &KeyspaceSettings,
    ) -> Result<KeyspaceConfig, ChangeRefusal> {
        if let Some(hash) = &settings.hash {
            config = config.placed_by(hash).map_err(setting)?;
        }
        if !settings.split_at.is_empty() {
            if config.order == KeyOrder::Hashed {
                return Err(setting(ConfigError::HashedSeparators));
            }
            config = config.divided_at(Separators::new(&settings.split_at).map_err(setting)?);
        }
        if let Some(requested) = settings.partitions {
            let regions = config.partitions.get();
            match config.order {
                KeyOrder::Hashed => config.partitions = PartitionCount::new(requested).map_err(setting)?,
                KeyOrder::Ordered if requested == regions => {}
                KeyOrder::Ordered => {
                    return Err(setting(ConfigError::OrderedPartitions { requested, regions }));
                }
            }
        }
        if let Some(min_in_sync) = settings.min_in_sync {
            config.min_in_sync = small(min_in_sync, "min-in-sync")?;
        }
        if let Some(durability) = &settings.durability {
            config.durability = durability.parse().map_err(setting)?;
        }
        if let Some(chunk_bytes) = settings.chunk_bytes {
            config.chunk_bytes = chunk_bytes;
        }
        if let Some(ms) = settings.history_ms {
            let bytes =
                if config.history.is_none() { ChangeHistory::BYTES_DEFAULT } else { config.history.bytes };
            config.history = if ms == 0 { ChangeHistory::NONE } else { ChangeHistory { ms, bytes } };
        }
        if let Some(bytes) = settings.history_bytes {
            config.history.bytes = bytes;
        }
        let nodes = self.map.nodes().len();
        if usize::from(config.replicas) > nodes && settings.replicas.is_some() {
            let reason = format!(
                "{} replicas, but the cluster has {}, and two copies on one node are no safer than one: ask for {nodes} or leave it out",
                config.replicas,
                counted(nodes, "node"),
            );
            return Err(refusal(REFUSED_SETTING, reason));
        }
        if self.in_memory && config.durability != Durability::Memory {
            let reason = format!(
                "durability {}, but this node was started with --memory and has no disk: ask for memory, or start it with \
                 --data",
                config.durability
            );
            return Err(refusal(REFUSED_SETTING, reason));
        }
        Ok(config)
    }

    fn decided(&self, change: MapChange, keyspace: KeyspaceStatus) -> ChangeDecision {
        let from = self.map.epoch();
        let delta = MapDelta { from, to: from.next(), changes: vec![change] };
        Ok(DecidedChange { delta: Some(delta), keyspace })
    }
}

/// A keyspace as replies describe it.
pub(super) fn status(id: KeyspaceId, config: &KeyspaceConfig) -> KeyspaceStatus {
    KeyspaceStatus {
        id: id.0,
        name: config.name.to_string(),
        partitions: config.partitions.get(),
        hash: config.placement().to_owned(),
        replicas: config.replicas.into(),
        min_in_sync: config.min_in_sync.into(),
        durability: config.durability.to_string(),
        chunk_bytes: config.chunk_bytes,
        separators: config.separators.iter().map(<[u8]>::to_vec).collect(),
        history: history_of(config.history),
        ..KeyspaceStatus::default()
    }
}

fn history_of(history: ChangeHistory) -> Option<KeyspaceHistory> {
    let ChangeHistory { ms, bytes } = history;
    (!history.is_none()).then_some(KeyspaceHistory { ms, bytes })
}

fn name(text: &str) -> Result<KeyspaceName, ChangeRefusal> {
    KeyspaceName::new(text).map_err(setting)
}

fn small(number: u32, what: &str) -> Result<u8, ChangeRefusal> {
    u8::try_from(number).map_err(|_| {
        let most = zerohop_placement::limits::REPLICAS_MAX;
        refusal(REFUSED_SETTING, format!("{number} {what}: ask for 1 to {most}"))
    })
}

#[cfg(test)]
mod tests {
    use zerohop_placement::{Address, Node, NodeState};
    use zerohop_wire::admin::REFUSED_DROPPING;
    use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch};

    use super::*;

    fn map() -> ClusterMap {
        let node = Node {
            id: NodeId(1),
            state: NodeState::Up,
            incarnation: Incarnation(7),
            manager: Address::new("127.0.0.1:7400").unwrap(),
            first_instance: InstanceId(1),
            instances: vec![Address::new("127.0.0.1:7401").unwrap(), Address::new("127.0.0.1:7402").unwrap()],
        };
        ClusterMap::of_one_node(node, 1).unwrap()
    }

    fn on(map: &ClusterMap) -> ChangeContext<'_> {
        ChangeContext { map, node: NodeId(1), in_memory: false }
    }

    fn requested_settings(name: &str) -> KeyspaceSettings {
        KeyspaceSettings { name: name.into(), ..KeyspaceSettings::default() }
    }

    fn refused(decision: ChangeDecision) -> (&'static str, String) {
        let refusal = decision.unwrap_err();
        (refusal.code, refusal.reason)
    }

    /// The map after a decision.
    fn after(map: &ClusterMap, decided: &DecidedChange) -> ClusterMap {
        map.apply(decided.delta.as_ref().unwrap()).unwrap()
    }

    #[test]
    fn unset_settings_are_adapted_to_one_node() {
        let map = map();
        let decided = on(&map).create(&requested_settings("papers"), KeyspaceId(5), 9).unwrap();
        assert_eq!((decided.keyspace.replicas, decided.keyspace.min_in_sync), (1, 1));
        assert_eq!((decided.keyspace.id, decided.keyspace.partitions), (5, 256));
        let next = after(&map, &decided);
        assert_eq!(next.epoch(), MapEpoch(2));
        assert_eq!(next.keyspace_named("papers").unwrap().1.config().seed, 9);
        let full = KeyspaceSettings {
            partitions: Some(8),
            hash: Some("jenkins".into()),
            replicas: Some(1),
            min_in_sync: Some(1),
            durability: Some("interval:50ms".into()),
            chunk_bytes: Some(4096),
            history_ms: Some(60_000),
            ..requested_settings("full")
        };
        let status = on(&map).create(&full, KeyspaceId(6), 9).unwrap().keyspace;
        let expected = KeyspaceStatus {
            id: 6,
            name: "full".into(),
            partitions: 8,
            hash: "jenkins".into(),
            replicas: 1,
            min_in_sync: 1,
            durability: "interval:50ms".into(),
            chunk_bytes: 4096,
            history: Some(KeyspaceHistory { ms: 60_000, bytes: ChangeHistory::BYTES_DEFAULT }),
            ..KeyspaceStatus::default()
        };
        assert_eq!(status, expected);
    }

    #[test]
    fn invalid_setting_is_refused_with_a_remedy() {
        let map = map();
        let create = |settings: KeyspaceSettings| refused(on(&map).create(&settings, KeyspaceId(5), 9));
        assert_eq!(create(requested_settings("default")).0, REFUSED_EXISTS);
        assert_eq!(create(requested_settings("no spaces")).0, REFUSED_SETTING);
        let (code, reason) = create(KeyspaceSettings { replicas: Some(3), ..requested_settings("a") });
        assert!(code == REFUSED_SETTING && reason.contains("has 1 node,"), "{reason}");
        for (settings, word) in [
            (KeyspaceSettings { replicas: Some(0), ..requested_settings("a") }, "0 replicas"),
            (KeyspaceSettings { replicas: Some(300), ..requested_settings("a") }, "300 replicas"),
            (KeyspaceSettings { min_in_sync: Some(2), ..requested_settings("a") }, "min-in-sync 2"),
            (KeyspaceSettings { partitions: Some(100), ..requested_settings("a") }, "100"),
            (KeyspaceSettings { hash: Some("md5".into()), ..requested_settings("a") }, "md5"),
            (
                KeyspaceSettings { durability: Some("never".into()), ..requested_settings("a") },
                "no such durability",
            ),
            (KeyspaceSettings { durability: Some("interval:0ms".into()), ..requested_settings("a") }, "0 ms"),
            (KeyspaceSettings { chunk_bytes: Some(5), ..requested_settings("a") }, "5 bytes"),
        ] {
            let (code, reason) = create(settings);
            assert!(code == REFUSED_SETTING && reason.contains(word), "{word}: {reason}");
        }
    }

    #[test]
    fn repeated_split_of_a_named_region_divides_no_child() {
        let map = map();
        let settings = KeyspaceSettings { hash: Some("ordered".into()), ..requested_settings("events") };
        let events = after(&map, &on(&map).create(&settings, KeyspaceId(5), 9).unwrap());
        let split = |at: &[u8], region| RegionSplit {
            keyspace: "events".into(),
            separator: at.to_vec(),
            region,
            ..RegionSplit::default()
        };
        let divided = after(&events, &on(&events).split_region(&split(b"m", Some(0))).unwrap());
        assert!(
            on(&divided).split_region(&split(b"m", Some(0))).unwrap().delta.is_none(),
            "it is done already"
        );
        let (code, reason) = refused(on(&divided).split_region(&split(b"n", Some(0))));
        assert!(code == REFUSED_SETTING && reason.contains("and not in 0"), "{reason}");
        assert!(on(&divided).split_region(&split(b"n", None)).unwrap().delta.is_some());
    }

    #[test]
    fn regions_are_given_at_creation() {
        let map = map();
        let keys = |keys: &[&[u8]]| -> Vec<Vec<u8>> { keys.iter().map(|key| key.to_vec()).collect() };
        let ordered = |partitions, split_at: &[&[u8]]| KeyspaceSettings {
            partitions,
            hash: Some("ordered".into()),
            split_at: keys(split_at),
            ..requested_settings("events")
        };
        let three = ordered(Some(3), &[b"m", b"\xff"]);
        let decided = on(&map).create(&three, KeyspaceId(5), 9).unwrap();
        assert_eq!(decided.keyspace.separators, keys(&[b"m", b"\xff"]));
        assert_eq!((decided.keyspace.partitions, &*decided.keyspace.hash), (3, "ordered"));
        let next = after(&map, &decided);
        assert_eq!(next.keyspace_named("events").unwrap().1.groups().len(), 3);
        for (settings, word) in [
            (ordered(Some(2), &[b"m", b"x"]), "2 partitions of an ordered keyspace with 2 separators"),
            (ordered(Some(4), &[]), "4 partitions of an ordered keyspace with 0 separators"),
            (ordered(None, &[b"m", b"a"]), "separator \"a\" is below \"m\""),
            (ordered(None, &[b"m", b"m"]), "separator \"m\" is named twice"),
            (ordered(None, &[b""]), "separator 1 is empty"),
            (ordered(None, &[&[7; 257]]), "separator 1 has 257 bytes"),
            (KeyspaceSettings { hash: None, ..three.clone() }, "places keys by hash"),
        ] {
            let (code, reason) = refused(on(&map).create(&settings, KeyspaceId(5), 9));
            assert!(code == REFUSED_SETTING && reason.contains(word), "{word}: {reason}");
        }
        let many = KeyspaceSettings {
            split_at: (1..=4096u32).map(|n| n.to_be_bytes().to_vec()).collect(),
            ..ordered(None, &[])
        };
        let (_, reason) = refused(on(&map).create(&many, KeyspaceId(5), 9));
        assert!(reason.contains("more than 4095 separators"), "{reason}");
        assert!(on(&next).alter(&three).unwrap().delta.is_none(), "it is so already");
        let sync = KeyspaceSettings { durability: Some("sync".into()), ..requested_settings("events") };
        let altered = after(&next, &on(&next).alter(&sync).unwrap());
        assert_eq!(altered.keyspace_named("events").unwrap().1.config().separators.len(), 2);
        let (_, reason) = refused(on(&next).alter(&ordered(None, &[b"m", b"n"])));
        assert!(reason.contains("the set of separators"), "{reason}");
        let split = KeyspaceSettings { partitions: Some(6), ..requested_settings("events") };
        let (code, reason) = refused(on(&next).alter(&split));
        assert!(code == REFUSED_SETTING && reason.contains("region split"), "{reason}");
    }

    #[test]
    fn keyspace_alteration_changes_only_alterable_settings() {
        let map = map();
        let sync = KeyspaceSettings { durability: Some("sync".into()), ..requested_settings("default") };
        let decided = on(&map).alter(&sync).unwrap();
        assert_eq!(decided.keyspace.durability, "sync");
        let next = after(&map, &decided);
        assert!(on(&next).alter(&sync).unwrap().delta.is_none(), "it is so already");
        let same = KeyspaceSettings {
            partitions: Some(256),
            hash: Some("crc16".into()),
            ..requested_settings("default")
        };
        assert!(on(&map).alter(&same).unwrap().delta.is_none());
        let split = KeyspaceSettings { partitions: Some(512), ..requested_settings("default") };
        assert_eq!(on(&map).alter(&split).unwrap().keyspace.partitions, 512);
        let (_, reason) = refused(on(&map).alter(&KeyspaceSettings { hash: Some("xxh3".into()), ..split }));
        assert!(reason.contains("a split changes nothing else"), "{reason}");
        let (_, reason) = refused(
            on(&map).alter(&KeyspaceSettings { partitions: Some(1024), ..requested_settings("default") }),
        );
        assert!(reason.contains("a split makes 512"), "{reason}");
        let (_, reason) =
            refused(on(&map).alter(&KeyspaceSettings { replicas: Some(2), ..requested_settings("default") }));
        assert!(reason.contains("has 1 node,"), "{reason}");
        assert_eq!(refused(on(&map).alter(&requested_settings("other"))).0, REFUSED_UNKNOWN);
    }

    #[test]
    fn keyspace_drop_is_accepted_except_for_default_keyspace() {
        let map = map();
        let named = |name: &str| KeyspaceDrop { name: name.into(), ..Default::default() };
        assert_eq!(refused(on(&map).drop(&named("default"))).0, REFUSED_SETTING);
        let (code, reason) = refused(on(&map).drop(&named("papers")));
        assert!(code == REFUSED_UNKNOWN && reason.contains("there is default"), "{reason}");
        let next = after(&map, &on(&map).create(&requested_settings("papers"), KeyspaceId(5), 9).unwrap());
        let dropping = after(&next, &on(&next).drop(&named("papers")).unwrap());
        assert!(dropping.keyspace_named("papers").unwrap().1.is_dropping());
        assert!(on(&dropping).drop(&named("papers")).unwrap().delta.is_none(), "it is being dropped already");
        // A repeated request does not mean another keyspace of the same name.
        for (id, is_meant) in [(5, true), (4, false)] {
            let again = on(&dropping).drop(&KeyspaceDrop { id, ..named("papers") });
            assert!(again.is_ok() || refused(again).0 == REFUSED_UNKNOWN);
            assert_eq!(on(&next).drop(&KeyspaceDrop { id, ..named("papers") }).is_ok(), is_meant);
        }
        for other in [
            on(&dropping).create(&requested_settings("papers"), KeyspaceId(6), 9),
            on(&dropping).alter(&requested_settings("papers")),
        ] {
            let (code, reason) = refused(other);
            assert!(code == REFUSED_DROPPING && reason.contains("--at-once"), "{reason}");
        }
        let at_once = KeyspaceDrop { name: "papers".into(), at_once: true, ..Default::default() };
        for map in [next, dropping] {
            let last = after(&map, &on(&map).drop(&at_once).unwrap());
            assert!(last.keyspace_named("papers").is_none());
        }
    }

    #[test]
    fn a_node_without_a_disk_promises_no_durability() {
        let map = map();
        let memory = ChangeContext { in_memory: true, ..on(&map) };
        let decided = memory.create(&requested_settings("a"), KeyspaceId(5), 9).unwrap();
        assert_eq!(decided.keyspace.durability, "memory");
        let sync = KeyspaceSettings { durability: Some("sync".into()), ..requested_settings("b") };
        let (_, reason) = refused(memory.create(&sync, KeyspaceId(5), 9));
        assert!(reason.contains("--memory"), "{reason}");
    }
}
