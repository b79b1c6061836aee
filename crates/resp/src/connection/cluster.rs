//! `CLUSTER`: the layout of the cluster as clients of Redis Cluster see it.

use std::collections::{BTreeMap, BTreeSet};

use super::gather::Gather;
use super::help::help;
use super::{Connection, wrong_number};
use crate::command::GatherCommand;
use crate::number::integer;
use crate::{
    Args, ConnectionWorld, Layout, MemberState, PartitionPlace, RedisMember, ReplyWriter, SlotService, Slots,
};

/// Slots of a Redis cluster.
const SLOTS: u32 = 16_384;

impl Connection {
    pub(super) fn cluster(
        &mut self,
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        reply: &mut ReplyWriter<'_>,
    ) -> Result<(), String> {
        let exactly = |count, name| Connection::check_count(args, count, name);
        match () {
            () if args.is(1, "INFO") => {
                exactly(2, "cluster|info")?;
                self.existing_partitions(world)?;
                reply.verbatim(&info(&world.layout(self.keyspace), world.map_epoch()));
            }
            () if args.is(1, "SLOTS") => {
                exactly(2, "cluster|slots")?;
                self.existing_partitions(world)?;
                self.is_cluster_aware = true;
                slots(&world.layout(self.keyspace), reply);
            }
            () if args.is(1, "SHARDS") => {
                exactly(2, "cluster|shards")?;
                self.existing_partitions(world)?;
                self.is_cluster_aware = true;
                shards(&world.layout(self.keyspace), reply);
            }
            () if args.is(1, "NODES") => {
                exactly(2, "cluster|nodes")?;
                self.existing_partitions(world)?;
                self.is_cluster_aware = true;
                reply.verbatim(&nodes(&world.layout(self.keyspace), world.map_epoch()));
            }
            () if args.is(1, "MYID") => {
                exactly(2, "cluster|myid")?;
                let members = world.layout(self.keyspace).members;
                let own = members.iter().find(|member| member.is_self);
                reply.bulk(own.map_or("", |member| member.id.as_str()).as_bytes());
            }
            () if args.is(1, "KEYSLOT") => {
                exactly(3, "cluster|keyslot")?;
                reply.integer(world.slot_of(args.at(2)).into());
            }
            () => return help("cluster", args, reply),
        }
        Ok(())
    }

    /// `CLUSTER COUNTKEYSINSLOT`: asks one partition for its keys and counts those of the slot.
    pub(super) fn count_keys_in_slot(
        &mut self,
        args: Args<'_>,
        world: &mut dyn ConnectionWorld,
        out: &mut Vec<u8>,
    ) {
        let slot = integer(args.at(2)).and_then(|slot| u16::try_from(slot).ok());
        let slot = slot.filter(|&slot| u32::from(slot) < SLOTS);
        let text = match slot {
            _ if args.len() != 3 => wrong_number("cluster|countkeysinslot"),
            None => "ERR Invalid slot".to_owned(),
            Some(slot) => {
                let partition = world.partition_of_slot(self.keyspace, slot);
                match (self.existing_partitions(world), partition) {
                    (Ok(partitions), Some(partition)) => {
                        let place = PartitionPlace { keyspace: self.keyspace, partition };
                        let gather = Gather::of_one(GatherCommand::CountSlot(slot), place, partitions);
                        let number = self.pending.number();
                        return self.request_pages(number, Box::new(gather), world, out);
                    }
                    (Ok(_), None) => "ERR this keyspace does not place its keys by slots".to_owned(),
                    (Err(text), _) => text.to_owned(),
                }
            }
        };
        self.reply(out, |reply| reply.error(&text));
    }
}

fn info(layout: &Layout, epoch: u64) -> String {
    let Layout { members, slots, service: SlotService { failed, suspected, is_complete } } = layout;
    let assigned: u32 = slots.iter().map(|slots| size(slots.first, slots.last)).sum();
    let served = assigned.saturating_sub(failed + suspected);
    let state = if *is_complete && assigned == SLOTS { "ok" } else { "fail" };
    let serving = (0..members.len()).filter(|member| serves(layout, *member)).count();
    format!(
        "cluster_enabled:1\r\ncluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{served}\r\n\
         cluster_slots_pfail:{suspected}\r\ncluster_slots_fail:{failed}\r\ncluster_known_nodes:{}\r\ncluster_size:{serving}\r\n\
         cluster_current_epoch:{epoch}\r\ncluster_my_epoch:{epoch}\r\n",
        members.len()
    )
}

fn size(from: u16, to: u16) -> u32 {
    u32::from(to.saturating_sub(from)) + 1
}

/// Whether a member is the primary of any slot.
fn serves(layout: &Layout, member: usize) -> bool {
    layout.slots.iter().any(|slots| slots.primary == member)
}

fn slots(layout: &Layout, reply: &mut ReplyWriter<'_>) {
    reply.array(layout.slots.len());
    for Slots { first, last, primary, replicas } in &layout.slots {
        reply.array(3 + replicas.len());
        reply.integer((*first).into());
        reply.integer((*last).into());
        for member in std::iter::once(primary).chain(replicas).filter_map(|place| layout.members.get(*place))
        {
            reply.array(4);
            reply.bulk(member.host.as_bytes());
            reply.integer(member.port.into());
            reply.bulk(member.id.as_bytes());
            reply.array(0);
        }
    }
}

/// A primary and its replicas.
type Holders<'a> = (usize, &'a [usize]);

/// A shard is the set of slots with the same primary and replicas, contiguous or not. An instance
/// without slots is a shard too.
fn shards(layout: &Layout, reply: &mut ReplyWriter<'_>) {
    let mut shards: BTreeMap<Holders<'_>, Vec<(u16, u16)>> = BTreeMap::new();
    for Slots { first, last, primary, replicas } in &layout.slots {
        shards.entry((*primary, replicas)).or_default().push((*first, *last));
    }
    let in_shards: BTreeSet<usize> =
        shards.keys().flat_map(|(primary, replicas)| replicas.iter().copied().chain([*primary])).collect();
    for member in (0..layout.members.len()).filter(|member| !in_shards.contains(member)) {
        shards.insert((member, &[]), Vec::new());
    }
    reply.array(shards.len());
    for ((primary, replicas), ranges) in shards {
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * ranges.len());
        for (from, to) in ranges {
            reply.integer(from.into());
            reply.integer(to.into());
        }
        reply.bulk(b"nodes");
        reply.array(1 + replicas.len());
        let roles =
            std::iter::once((primary, "master")).chain(replicas.iter().map(|place| (*place, "replica")));
        for (place, role) in roles {
            if let Some(member) = layout.members.get(place) {
                shard_node(member, role, reply);
            }
        }
    }
}

fn shard_node(member: &RedisMember, role: &str, reply: &mut ReplyWriter<'_>) {
    reply.map(7);
    reply.bulk(b"id");
    reply.bulk(member.id.as_bytes());
    reply.bulk(b"port");
    reply.integer(member.port.into());
    let health = if member.state == MemberState::Up { "online" } else { "failed" };
    let host = member.host.as_str();
    for (field, text) in [("ip", host), ("endpoint", host), ("role", role), ("health", health)] {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
    reply.bulk(b"replication-offset");
    reply.integer(0);
}

/// An instance is either master or replica here: master if it is primary of any slot, else replica
/// of the primary with which it shares the most slots.
fn nodes(layout: &Layout, epoch: u64) -> String {
    let line = |(place, member): (usize, &RedisMember)| {
        let mut own: Vec<(u16, u16)> = Vec::new();
        for Slots { first, last, .. } in layout.slots.iter().filter(|slots| slots.primary == place) {
            match own.last_mut() {
                Some(before) if before.1 + 1 == *first => before.1 = *last,
                _ => own.push((*first, *last)),
            }
        }
        let range =
            |(first, last)| if first == last { format!(" {first}") } else { format!(" {first}-{last}") };
        let ranges: String = own.into_iter().map(range).collect();
        let of = if ranges.is_empty() { copies_most(layout, place) } else { None };
        let role = if of.is_some() { "slave" } else { "master" };
        let of = of.and_then(|of| layout.members.get(of)).map_or("-", |of| of.id.as_str());
        let myself = if member.is_self { "myself," } else { "" };
        let (fail, link) = match member.state {
            MemberState::Up => ("", "connected"),
            MemberState::Silent => (",fail?", "disconnected"),
            MemberState::Down => (",fail", "disconnected"),
        };
        let RedisMember { id, host, port, .. } = member;
        format!("{id} {host}:{port}@0 {myself}{role}{fail} {of} 0 0 {epoch} {link}{ranges}\n")
    };
    layout.members.iter().enumerate().map(line).collect()
}

/// The primary of most of the slots that a member has a copy of.
fn copies_most(layout: &Layout, member: usize) -> Option<usize> {
    let mut copies: BTreeMap<usize, u32> = BTreeMap::new();
    for Slots { first, last, primary, replicas } in &layout.slots {
        if replicas.contains(&member) {
            *copies.entry(*primary).or_default() += size(*first, *last);
        }
    }
    copies.into_iter().max_by_key(|(_, slots)| *slots).map(|(primary, _)| primary)
}
