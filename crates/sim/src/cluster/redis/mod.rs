//! Redis clients: their connections to instances, the connections between instances over which
//! units travel, and what the clients send.
//!
//! ```text
//!   events ──> Travel   bytes of a connection arrive at an instance (side) or at a client (clients)
//!          ──> Sibling  units and replies between two instances of a node
//!          ──> RecordAction   a client connects, sends commands, or leaves (clients)
//!   replies ── parsed and compared with what was asked ──> history, violations
//! ```
//!
//! These connections have a network of their own, so that runs without Redis clients are as they
//! would be without this module.

mod clients;
mod commands;
mod cross_partition;
mod leaving;
mod listings;
mod replies;
mod side;

use std::collections::BTreeMap;
use std::fmt;

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_placement::Durability;
use zerohop_wire::ids::{InstanceId, KeyspaceId};

use super::redis_turn::{RedisCounts, RedisTurn, SiblingMessage};
use super::scenario::{ClusterScenario, PlannedKeyspace, lists_keyspaces};
use super::{ClusterEvent, SimulatedCluster};
use crate::kinds::FaultKind;
use crate::network::{LinkArrival, LinkEnd, LinkId, Network, Opener, PacketInTransit};
use crate::scenario::NetworkFaults;
use crate::streams::Draw;
use clients::RedisClient;
use cross_partition::NodeClients;
pub(super) use cross_partition::PendingCrossPartitionUnits;
use leaving::LeavingNode;
use listings::ListingClient;
pub(super) use side::{RedisArrival, RedisSide};

const MS: u64 = 1_000;

/// The keyspaces of Redis clients: the second one may be dropped.
pub(super) const REDIS_KEYSPACES: [&str; 2] = ["redis-0", "redis-1"];

/// Groups of keys in each keyspace. A split may put the keys of the last one into several
/// partitions.
const GROUPS: usize = 5;

/// How long a message between two instances of a node takes.
const SIBLING_US: u64 = 20;

/// How many connections of a thousand messages break, where connections break at all.
const BREAKS: u64 = 6;

/// Bytes of each arrival that traces show.
const SHOWN_BYTES: usize = 200;

/// Bytes as text, which is made only where lines of a trace are kept.
struct BytesText<'b>(&'b [u8]);

impl fmt::Display for BytesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.0))
    }
}

/// An event of Redis clients.
#[derive(Debug)]
pub(super) enum RedisEvent {
    Travel(PacketInTransit),
    Sibling {
        host: usize,
        life: u32,
        slot: usize,
        message: SiblingMessage,
    },
    RecordAction {
        client: usize,
    },
    /// A node looks whether it may stop.
    Leave {
        host: usize,
        life: u32,
    },
}

/// Long replies of a run: each costs as much as a hundred other commands.
const LONG_REPLIES_MAX: u32 = 40;

/// The stream that draws the behaviour.
const BEHAVIOUR_FORK: u64 = 41;

/// What clients do in some runs only.
#[derive(Clone, Copy, Debug, Default)]
struct ClientBehaviour {
    /// They rest between `WATCH` and `MULTI`, so that others can change what is watched.
    rests_after_watch: bool,
    /// They send commands with keys in several partitions.
    is_cross_partition: bool,
    /// They have long replies, which are sent in pages.
    has_long_replies: bool,
    /// They send commands to a node just before it accepts no more.
    asks_leaving_nodes: bool,
    /// They send commands over whole keyspaces.
    lists_keyspaces: bool,
}

impl ClientBehaviour {
    fn draw(random: &Random) -> ClientBehaviour {
        let lists_keyspaces = lists_keyspaces(random);
        let mut random = random.fork(BEHAVIOUR_FORK);
        ClientBehaviour {
            lists_keyspaces,
            rests_after_watch: random.chance(1, 2),
            asks_leaving_nodes: random.chance(1, 2),
            is_cross_partition: random.chance(1, 2),
            has_long_replies: random.chance(1, 2),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct RedisWorld {
    /// Whether this run has Redis clients.
    pub(super) is_on: bool,
    network: Network,
    random: Random,
    clients: Vec<RedisClient>,
    behaviour: ClientBehaviour,
    connections: u64,
    tokens: u64,
    long_replies_left: u32,
    /// The names of all keys, by group and key.
    names: BTreeMap<KeyspaceId, Vec<[String; 3]>>,
    /// Which text was written last in each group, as far as clients know, for waits.
    texts: BTreeMap<(KeyspaceId, usize), u64>,
    /// When a message between two instances of a node arrives at the earliest: they keep their
    /// order.
    sibling_order: BTreeMap<(usize, usize, usize), Time>,
    /// The clients of nodes, which execute units over several partitions.
    node_clients: NodeClients,
    /// Nodes that shut down cleanly.
    leaving: BTreeMap<usize, LeavingNode>,
    /// The keyspaces of which the operator has asked for a split, and how often.
    pub(super) splits: u32,
    pub(super) is_drop_requested: bool,
}

impl RedisWorld {
    pub(super) fn new(mut random: Random, scenario: &ClusterScenario) -> RedisWorld {
        let is_on = scenario.has(FaultKind::RedisClients);
        let breaks = if scenario.has(FaultKind::BrokenConnections) { BREAKS } else { 0 };
        let faults = NetworkFaults { damage: 0, refused: 0, breaks, ..scenario.network };
        let network = Network::new(random.fork(1), faults, 0);
        let behaviour = ClientBehaviour::draw(&random);
        let count = if is_on { random.between(3, 5) } else { 0 };
        let clients = (0..count)
            .map(|client| {
                let listings = ListingClient::new(&random, client);
                RedisClient::new(behaviour.lists_keyspaces.then_some(listings))
            })
            .collect();
        RedisWorld {
            is_on,
            network,
            random,
            clients,
            behaviour,
            connections: 0,
            tokens: 0,
            long_replies_left: if behaviour.has_long_replies { LONG_REPLIES_MAX } else { 0 },
            names: BTreeMap::new(),
            texts: BTreeMap::new(),
            sibling_order: BTreeMap::new(),
            node_clients: NodeClients::default(),
            leaving: BTreeMap::new(),
            splits: 0,
            is_drop_requested: false,
        }
    }

    /// The settings of a Redis keyspace: an acknowledged write survives what the checker assumes.
    pub(super) fn keyspace(&self, at: usize) -> PlannedKeyspace {
        let partitions = *self.random.fork(7 + at as u64).pick(&[1, 2, 4]);
        PlannedKeyspace {
            durability: Durability::Sync,
            partitions,
            replicas: 3,
            min_in_sync: 2,
            separators: None,
        }
    }

    /// The Redis side of an instance that opens.
    pub(super) fn side(&mut self, place: usize, siblings: Vec<InstanceId>) -> Option<Box<RedisSide>> {
        if !self.is_on {
            return None;
        }
        let time_out_ms = *self.random.pick(&[700, 1_500, 4_000]);
        let random = self.random.fork(self.random.clone().next_u64());
        let settings = (time_out_ms, self.behaviour.is_cross_partition);
        Some(Box::new(RedisSide::new((place, siblings), settings, random)))
    }

    /// Nothing passes from one node to another until then.
    pub(super) fn cut(&mut self, from: usize, to: usize, until: Time) {
        self.network.cut_nodes(from, to, until);
    }

    pub(super) fn end_faults(&mut self, now: Time) {
        self.network.end_faults(now);
    }

    /// A node's process has ended.
    pub(super) fn lose_node(
        &mut self,
        now: Time,
        silently: bool,
        (host, places): (usize, std::ops::Range<usize>),
    ) {
        self.network.lose_openers(
            now,
            silently,
            |opener| matches!(opener, Opener::Units { host: of, .. } if of == host),
        );
        self.network.lose_node(now, silently, |place| places.contains(&place));
    }

    /// A node's process has started.
    pub(super) fn node_is_back(&mut self, now: Time, (host, places): (usize, std::ops::Range<usize>)) {
        self.network.node_is_back(now, |place| places.contains(&place));
        self.network
            .opener_is_back(now, |opener| matches!(opener, Opener::Units { host: of, .. } if of == host));
    }
}

/// The Redis clients of a cluster, while one of their events happens.
pub(super) struct RedisRun<'c> {
    pub(super) world: &'c mut SimulatedCluster,
}

impl RedisRun<'_> {
    pub(super) fn set_up(&mut self) {
        self.world.history.redis.apart.insert(GROUPS - 1);
        for client in 0..self.world.redis.clients.len() {
            let at = self.world.now().after_us(self.world.redis.random.below(2_000 * MS));
            self.world.event_queue.at(at, ClusterEvent::Redis(RedisEvent::RecordAction { client }));
        }
    }

    pub(super) fn happen(&mut self, event: RedisEvent) {
        match event {
            RedisEvent::Travel(thing) => self.arrive(thing),
            RedisEvent::Sibling { host, life, slot, message } => {
                if self.world.hosts[host].life == life && self.world.hosts[host].is_up {
                    self.world.hosts[host].slots[slot].arrive_redis(RedisArrival::Sibling(message));
                    self.world.schedule_slot_soon(host, slot);
                }
            }
            RedisEvent::RecordAction { client } => self.act(client),
            RedisEvent::Leave { host, life } => self.leave_on(host, life),
        }
    }

    pub(super) fn enqueue_in_flight(&mut self) {
        for thing in self.world.redis.network.take_in_transit() {
            self.world.event_queue.at(thing.at, ClusterEvent::Redis(RedisEvent::Travel(thing)));
        }
    }

    fn arrive(&mut self, thing: PacketInTransit) {
        if !self.world.redis.network.arrives(&thing) {
            return;
        }
        let now = self.world.now();
        let PacketInTransit { link, to, what, .. } = thing;
        self.trace_arrival(link, to, &what);
        let target = self.world.locate_instance(self.world.redis.network.instance(link));
        let Some(opener) = self.world.redis.network.opener(link) else { return };
        match (to, opener) {
            (LinkEnd::Node, Opener::Redis { .. }) => {
                self.pass_to_side(target, RedisArrival::FromClient(link, what))
            }
            (LinkEnd::Node, Opener::Units { .. }) => {
                self.pass_to_side(target, RedisArrival::FromInstance(link, what));
            }
            (LinkEnd::Opener, Opener::Redis { client }) => self.receive(client, link, what),
            (LinkEnd::Opener, Opener::Units { host, slot, life, .. }) => {
                let to = target.and_then(|(host, slot)| self.world.hosts[host].instance_id(slot));
                if self.world.hosts[host].life == life
                    && self.world.hosts[host].is_up
                    && let Some(to) = to
                {
                    self.pass_to_side(Some((host, slot)), RedisArrival::OverOwnLink(link, to, what));
                }
            }
            _ => self.world.trace.record(now, format_args!("{link} leads nowhere")),
        }
    }

    fn trace_arrival(&mut self, link: LinkId, to: LinkEnd, what: &LinkArrival) {
        let now = self.world.now();
        match what {
            LinkArrival::Bytes(bytes) => {
                let text = BytesText(&bytes[..bytes.len().min(SHOWN_BYTES)]);
                self.world.trace.record_frequent(
                    now,
                    format_args!("redis {link} to {to:?}: {} bytes {text}", bytes.len()),
                    link.0,
                );
                self.world.trace.bytes(bytes);
            }
            other => self.world.trace.record_frequent(
                now,
                format_args!("redis {link} to {to:?}: {other:?}"),
                link.0,
            ),
        }
    }

    fn pass_to_side(&mut self, at: Option<(usize, usize)>, what: RedisArrival) {
        let Some((host, slot)) = at else { return };
        self.world.hosts[host].slots[slot].arrive_redis(what);
        self.world.schedule_slot_soon(host, slot);
    }

    /// Carries out what the Redis side of an instance has left to do.
    pub(super) fn perform_turn(&mut self, host: usize, slot: usize, done: Time, turn: RedisTurn) {
        let life = self.world.hosts[host].life;
        for (link, to, bytes) in turn.sent {
            self.world.redis.network.send(done, link, to, &bytes);
        }
        for (link, stays) in turn.closed {
            let by = if stays == LinkEnd::Node { LinkEnd::Opener } else { LinkEnd::Node };
            self.world.redis.network.close(done, link, by);
        }
        for to in turn.calls {
            let Some((target, target_slot)) = self.world.host_of(to) else { continue };
            let place = self.world.hosts[target].instance_range.start + target_slot;
            let listens = self.world.hosts[target].is_up
                && self.world.hosts[target].slots[target_slot].instance.is_some();
            let opener = Opener::Units { host, slot, life, target };
            let link = self.world.redis.network.open_to(done, opener, place, listens);
            self.world.trace.record(done, format_args!("n{host}/{slot} opens redis {link} to {to}"));
        }
        for (to, message) in turn.siblings {
            let earliest = self.world.redis.sibling_order.entry((host, slot, to)).or_insert(done);
            let at = done.after_us(SIBLING_US).max(earliest.after_us(1));
            *earliest = at;
            self.world
                .event_queue
                .at(at, ClusterEvent::Redis(RedisEvent::Sibling { host, life, slot: to, message }));
        }
        for unit in turn.spanning {
            PendingCrossPartitionUnits { world: self.world }.start(host, slot, unit);
        }
        self.count(turn.counts);
    }

    fn count(&mut self, counts: RedisCounts) {
        let RedisCounts {
            to_siblings,
            to_nodes,
            sent_back,
            waits,
            waits_elsewhere,
            links_lost,
            queued_over_splits,
            spanning,
            pages_awaited,
        } = counts;
        for (name, count) in [
            ("redis: units to instances of the node", to_siblings),
            ("redis: units to other nodes", to_nodes),
            ("redis: units sent back", sent_back),
            ("redis: waits for a record", waits),
            ("redis: waits elsewhere", waits_elsewhere),
            ("redis: connections between nodes lost", links_lost),
            ("redis: units queued over a split", queued_over_splits),
            ("redis: units over several partitions", spanning),
            ("redis: long replies that wait for their client", pages_awaited),
        ] {
            if count > 0 {
                self.world.coverage.blobs_seen(name, count);
            }
        }
    }

    /// The keyspaces that Redis clients use now.
    fn keyspaces(&self) -> Vec<KeyspaceId> {
        let named = REDIS_KEYSPACES.into_iter().filter_map(|name| self.world.watch.map.keyspace_named(name));
        named.map(|(id, _)| id).filter(|id| !self.world.watch.is_dropped(*id)).collect()
    }
}
