//! Units over several partitions: each node executes those of its Redis clients with a client of its own, by the procedure of
//! `crates/relay/src/cross_partition`.
//!
//! ```text
//!   run_across ──> the node's client: transactions, with their retries ──> the reply, to the instance that has asked
//! ```
//!
//! When a node's process has ended, its client is replaced before the next unit. Until then the transactions of the former process
//! may still commit, as requests do that have left a process before its end; no client gets their replies.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zerohop_base::connection::ConnectionId;
use zerohop_relay::cross_partition::CrossPartitionUnits;
use zerohop_resp::Ticket;
use zerohop_session::procedures::ProcedureSettings;

use super::super::SimulatedCluster;
use super::super::redis_turn::SimulatedCrossPartitionUnit;
use super::{MS, RedisArrival};
use crate::network::LinkEnd;
use crate::streams::Draw;

/// Time limits of units in milliseconds: with a short one, outcomes stay unknown while a partition has no primary.
const DEADLINES_MS: [u64; 3] = [300, 1_500, 4_000];

/// The clients of nodes.
#[derive(Debug, Default)]
pub(super) struct NodeClients {
    by_host: BTreeMap<usize, NodeClient>,
    replies: Arc<Mutex<VecDeque<CrossPartitionReply>>>,
}

#[derive(Debug)]
struct NodeClient {
    client: usize,
    /// The process of the node that it belongs to.
    life: u32,
    units: Arc<CrossPartitionUnits>,
}

/// The reply to a unit.
#[derive(Debug)]
struct CrossPartitionReply {
    host: usize,
    slot: usize,
    life: u32,
    requester: (ConnectionId, Ticket),
    reply: Vec<u8>,
}

/// The clients of nodes, while one of them begins a unit or has a turn.
pub(in crate::cluster) struct PendingCrossPartitionUnits<'w> {
    pub(in crate::cluster) world: &'w mut SimulatedCluster,
}

impl PendingCrossPartitionUnits<'_> {
    /// Starts the execution of a unit of an instance's Redis client.
    pub(super) fn start(&mut self, host: usize, slot: usize, unit: SimulatedCrossPartitionUnit) {
        let (now, life) = (self.world.now(), self.world.hosts[host].life);
        let (client, units) = self.client_of_node(host);
        let SimulatedCrossPartitionUnit { keyspace, unit, requester } = unit;
        let text = format_args!("n{host}/{slot} executes a unit of {} bytes by c{client}", unit.len());
        self.world.trace.record(now, text);
        let replies = Arc::clone(&self.world.redis.node_clients.replies);
        // Records of these clients never expire.
        let now_ms = now.0 / MS;
        self.world.clients[client].procedures.start(async move {
            let mut reply = Vec::new();
            units.execute(&keyspace, &unit, || now_ms, &mut reply).await;
            let reply = CrossPartitionReply { host, slot, life, requester, reply };
            replies.lock().unwrap_or_else(PoisonError::into_inner).push_back(reply);
        });
        self.world.schedule_client(client, now.after_us(1));
    }

    /// Passes on the replies of this turn of a client.
    pub(in crate::cluster) fn handle_replies(&mut self) {
        loop {
            let replies = &self.world.redis.node_clients.replies;
            let reply = replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(CrossPartitionReply { host, slot, life, requester, reply }) = reply else { return };
            let found = &mut self.world.hosts[host];
            if found.life == life && found.is_up {
                found.slots[slot].arrive_redis(RedisArrival::Spanned(requester, reply));
                self.world.schedule_slot_soon(host, slot);
            }
        }
    }

    /// The client of a node's present process.
    fn client_of_node(&mut self, host: usize) -> (usize, Arc<CrossPartitionUnits>) {
        let (now, life) = (self.world.now(), self.world.hosts[host].life);
        let known = self.world.redis.node_clients.by_host.get(&host);
        if let Some(known) = known.filter(|known| known.life == life) {
            return (known.client, Arc::clone(&known.units));
        }
        let client = known.map_or(self.world.clients.len(), |known| known.client);
        let mut next_life = 0;
        if let Some(former) = self.world.clients.get(client) {
            next_life = former.life + 1;
            for link in former.open_links() {
                self.world.network.close(now, link, LinkEnd::Opener);
            }
        }
        self.world.begin_client(client, next_life);
        let deadline = Duration::from_millis(*self.world.redis.random.pick(&DEADLINES_MS));
        let handle = self.world.clients[client].procedures.handle(ProcedureSettings::new(deadline));
        let units = Arc::new(CrossPartitionUnits::new(handle));
        let known = NodeClient { client, life, units: Arc::clone(&units) };
        self.world.redis.node_clients.by_host.insert(host, known);
        (client, units)
    }
}
