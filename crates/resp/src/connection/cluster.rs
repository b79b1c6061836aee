//! `CLUSTER`: the layout of the cluster as clients of Redis cluster know it.

use super::gather::{Gather, Gathering};
use super::{Connection, unknown_subcommand, wrong_number};
use crate::number::integer;
use crate::{Args, Member, Place, ReplyWriter, World};

/// Slots of a Redis cluster.
const SLOTS: u32 = 16_384;

impl Connection {
    pub(super) fn cluster(
        &mut self,
        args: Args<'_>,
        world: &mut dyn World,
        reply: &mut ReplyWriter<'_>,
    ) -> Result<(), String> {
        let exactly = |count, name| Connection::check_count(args, count, name);
        match () {
            () if args.is(1, "INFO") => {
                exactly(2, "cluster|info")?;
                reply.verbatim(&info(&world.members(self.keyspace), world.map_epoch()));
            }
            () if args.is(1, "SLOTS") => {
                exactly(2, "cluster|slots")?;
                self.is_cluster_aware = true;
                slots(&world.members(self.keyspace), reply);
            }
            () if args.is(1, "SHARDS") => {
                exactly(2, "cluster|shards")?;
                self.is_cluster_aware = true;
                shards(&world.members(self.keyspace), reply);
            }
            () if args.is(1, "NODES") => {
                exactly(2, "cluster|nodes")?;
                self.is_cluster_aware = true;
                reply.verbatim(&nodes(&world.members(self.keyspace), world.map_epoch()));
            }
            () if args.is(1, "MYID") => {
                exactly(2, "cluster|myid")?;
                let members = world.members(self.keyspace);
                let own = members.iter().find(|member| member.is_self);
                reply.bulk(own.map_or("", |member| member.id.as_str()).as_bytes());
            }
            () if args.is(1, "KEYSLOT") => {
                exactly(3, "cluster|keyslot")?;
                reply.integer(world.slot_of(args.at(2)).into());
            }
            () => return Err(unknown_subcommand("cluster", args)),
        }
        Ok(())
    }

    /// `CLUSTER COUNTKEYSINSLOT`: the keys of one partition are asked for, and those of the slot counted.
    pub(super) fn count_keys_in_slot(&mut self, args: Args<'_>, world: &mut dyn World, out: &mut Vec<u8>) {
        let slot = integer(args.at(2)).and_then(|slot| u16::try_from(slot).ok());
        let slot = slot.filter(|&slot| u32::from(slot) < SLOTS);
        let text = match slot {
            _ if args.len() != 3 => wrong_number("cluster|countkeysinslot"),
            None => "ERR Invalid slot".to_owned(),
            Some(slot) => match world.partition_of_slot(self.keyspace, slot) {
                Some(partition) => {
                    let place = Place { keyspace: self.keyspace, partition };
                    let gather = Gather::of_one(Gathering::CountSlot(slot), place);
                    let number = self.pending.number();
                    return self.go_on(number, Box::new(gather), world, out);
                }
                None => "ERR this keyspace does not place its keys by slots".to_owned(),
            },
        };
        self.reply(out, |reply| reply.error(&text));
    }
}

fn info(members: &[Member], epoch: u64) -> String {
    let served: u32 = members.iter().flat_map(|member| &member.slots).map(|&(from, to)| size(from, to)).sum();
    let state = if served == SLOTS { "ok" } else { "fail" };
    let serving = members.iter().filter(|member| !member.slots.is_empty()).count();
    format!(
        "cluster_enabled:1\r\ncluster_state:{state}\r\ncluster_slots_assigned:{served}\r\ncluster_slots_ok:{served}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{}\r\ncluster_size:{serving}\r\n\
         cluster_current_epoch:{epoch}\r\ncluster_my_epoch:{epoch}\r\n",
        members.len()
    )
}

fn size(from: u16, to: u16) -> u32 {
    u32::from(to.saturating_sub(from)) + 1
}

fn slots(members: &[Member], reply: &mut ReplyWriter<'_>) {
    let ranges: usize = members.iter().map(|member| member.slots.len()).sum();
    reply.array(ranges);
    for member in members {
        for &(from, to) in &member.slots {
            reply.array(3);
            reply.integer(from.into());
            reply.integer(to.into());
            reply.array(4);
            reply.bulk(member.host.as_bytes());
            reply.integer(member.port.into());
            reply.bulk(member.id.as_bytes());
            reply.array(0);
        }
    }
}

fn shards(members: &[Member], reply: &mut ReplyWriter<'_>) {
    reply.array(members.len());
    for member in members {
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * member.slots.len());
        for &(from, to) in &member.slots {
            reply.integer(from.into());
            reply.integer(to.into());
        }
        reply.bulk(b"nodes");
        reply.array(1);
        reply.map(7);
        reply.bulk(b"id");
        reply.bulk(member.id.as_bytes());
        reply.bulk(b"port");
        reply.integer(member.port.into());
        for (field, text) in [
            ("ip", member.host.as_str()),
            ("endpoint", member.host.as_str()),
            ("role", "master"),
            ("health", "online"),
        ] {
            reply.bulk(field.as_bytes());
            reply.bulk(text.as_bytes());
        }
        reply.bulk(b"replication-offset");
        reply.integer(0);
    }
}

fn nodes(members: &[Member], epoch: u64) -> String {
    let line = |member: &Member| {
        let flags = if member.is_self { "myself,master" } else { "master" };
        let slots: String = member
            .slots
            .iter()
            .map(|&(from, to)| if from == to { format!(" {from}") } else { format!(" {from}-{to}") })
            .collect();
        let Member { id, host, port, .. } = member;
        format!("{id} {host}:{port}@0 {flags} - 0 0 {epoch} connected{slots}\n")
    };
    members.iter().map(line).collect()
}
