//! The Redis clients: they connect to any instance, send commands without waiting for replies, and
//! compare each reply with its command.

use std::collections::VecDeque;

use zerohop_base::time::Time;
use zerohop_placement::{KeyspaceConfig, PartitionCount, partition_of};
use zerohop_wire::ids::KeyspaceId;

use super::super::{ClusterEvent, ClusterPhase};
use super::commands::{add_command, add_whole};
use super::listings::{LAST_LISTINGS, ListingClient};
use super::replies::{RespValue, end_of, parse, replies_to};
use super::{GROUPS, MS, REDIS_KEYSPACES, RedisEvent, RedisRun, RedisWorld};
use crate::limits::CLUSTER_HEALING_US;
use crate::network::{LinkArrival, LinkEnd, LinkId, Opener};
use crate::redis::{RedisCall, RedisCommand, RedisEnd, RedisStep};
use crate::streams::Draw;

/// Commands under way on one connection.
const DEPTH: usize = 24;

/// Commands that a client sends at once.
const BURST_MAX: u64 = 6;

/// Mean rest of a client between two bursts, in a fault window and outside.
const REST_US: u64 = 70 * MS;
const QUIET_REST_US: u64 = 3_000 * MS;

/// The same after all faults, when hardly anything but the end of earlier commands is of interest.
const HEALED_REST_US: u64 = 350 * MS;

/// How long a client waits for a reply: several times as long as an instance lets a command wait.
const PATIENCE_US: u64 = 12_000 * MS;

/// More partitions than a keyspace of a run has after all splits.
const PARTITIONS_MAX: u32 = 256;

/// One of so many commands writes a long text or has a long reply, where there are such.
const LONG_ONE_OF: u64 = 12;

/// The length of a time in which clients have the same keys.
const RUSH_US: u64 = 200 * MS;

/// One of so many bursts is the last of its connection.
const LEAVES_ONE_OF: u64 = 40;

/// A client, and its present connection.
#[derive(Debug, Default)]
pub(super) struct RedisClient {
    link: Option<LinkId>,
    is_open: bool,
    connection: u64,
    keyspace: Option<KeyspaceId>,
    input: Vec<u8>,
    pending: VecDeque<PendingCommand>,
    /// The rest of a command whose `WATCH` was sent: it follows once that is replied to. Until then nothing else is sent.
    unsent: Option<Vec<u8>>,
    /// To be sent at the end: a read of every key.
    last: Vec<(KeyspaceId, usize, RedisStep)>,
    /// It sends commands over whole keyspaces.
    pub(super) listings: Option<ListingClient>,
}

impl RedisClient {
    pub(super) fn new(listings: Option<ListingClient>) -> RedisClient {
        RedisClient { listings, ..RedisClient::default() }
    }
}

#[derive(Debug)]
struct PendingCommand {
    /// Its place in the history; none: it chooses the keyspace.
    call: Option<usize>,
    since: Time,
    replies: Vec<RespValue>,
    requested: usize,
}

/// The names of the keys of all groups of a keyspace. Those of one group are in one partition, however
/// often the keyspace is split; those of the last one may be in several after a split, and if it `is_apart` from the beginning.
pub(super) fn key_names(config: &KeyspaceConfig, is_apart: bool) -> Vec<[String; 3]> {
    let partition_in =
        |key: &str, partitions| partition_of(config.hash.hash(config.seed, key.as_bytes()), partitions);
    let finest = PartitionCount::new(PARTITIONS_MAX).expect("is a power of two");
    let of_group = |group: usize| {
        let within = if group + 1 == GROUPS { config.partitions } else { finest };
        let text = format!("t{group}");
        let requested = partition_in(&text, within);
        let other = |letter: char| {
            let mut names = (0..).map(|number| format!("{letter}{group}-{number}"));
            let is_elsewhere = is_apart && group + 1 == GROUPS && within.get() > 1;
            names.find(|name| (partition_in(name, within) == requested) != is_elsewhere).unwrap_or_default()
        };
        let (counter, list) = (other('n'), other('l'));
        [text, counter, list]
    };
    (0..GROUPS).map(of_group).collect()
}

impl RedisWorld {
    /// Whether no client waits for a reply.
    pub(in crate::cluster) fn is_idle(&self) -> bool {
        self.clients.iter().all(|client| client.pending.is_empty() && client.last.is_empty())
    }
}

impl RedisRun<'_> {
    /// Every key is read once more, after all faults.
    pub(in crate::cluster) fn read_everything(&mut self) {
        self.world.history.redis.last = Some(self.world.now());
        let keyspaces = self.keyspaces();
        for (keyspace, client) in keyspaces.into_iter().zip(0..) {
            let all = [RedisStep::Get, RedisStep::GetCounter, RedisStep::Range];
            let reads = (0..GROUPS).flat_map(|group| all.map(|step| (keyspace, group, step)));
            if let Some(client) = self.world.redis.clients.get_mut(client) {
                client.last.extend(reads);
            }
        }
    }

    /// The clients of a node send their next commands.
    pub(super) fn clients_of_node_send(&mut self, host: usize) {
        let places = self.world.hosts[host].instance_range.clone();
        for client in 0..self.world.redis.clients.len() {
            let RedisClient { link, is_open: true, .. } = self.world.redis.clients[client] else { continue };
            if let Some(link) = link.filter(|link| places.contains(&self.world.redis.network.instance(*link)))
            {
                self.send_commands(client, link);
            }
        }
    }

    /// A client's next command.
    pub(super) fn act(&mut self, client: usize) {
        let now = self.world.now();
        let has_last = !self.world.redis.clients[client].last.is_empty();
        if self.world.phase >= ClusterPhase::Last
            && !has_last
            && self.world.redis.clients[client].pending.is_empty()
        {
            return self.act_again(client, 500 * MS);
        }
        if self.world.phase > ClusterPhase::Last {
            return;
        }
        let oldest = self.world.redis.clients[client].pending.front().map(|one| one.since);
        if oldest.is_some_and(|since| now.since_us(since) > PATIENCE_US) {
            let healed = self.world.history.healed.map(|at| at.after_us(CLUSTER_HEALING_US));
            if let (Some(healed), Some(since)) = (healed, oldest)
                && since > healed
            {
                let call = self.world.redis.clients[client].pending.front().and_then(|one| one.call);
                let call = call.map(|call| self.world.history.redis.calls[call].to_string());
                self.world
                    .record_violation("redis", format!("r{client} has had no reply for long: {call:?}"));
            }
            self.leave(client);
        }
        match (self.world.redis.clients[client].link, self.world.redis.clients[client].is_open) {
            (None, _) => self.connect(client),
            (Some(_), false) => {}
            (Some(link), true) => self.send_commands(client, link),
        }
        let is_in_window =
            self.world.phase != ClusterPhase::Faults || self.world.scenario.is_in_fault_window(now);
        let mean_us = match self.world.phase {
            ClusterPhase::Healed => HEALED_REST_US,
            _ if is_in_window => REST_US,
            _ => QUIET_REST_US,
        };
        let rest_us = self.world.redis.random.wait(mean_us);
        let rest_us = match self.world.scenario.next_fault_window(now) {
            Some(next) if !is_in_window => {
                rest_us.min(next.since_us(now) + self.world.redis.random.below(REST_US))
            }
            _ => rest_us,
        };
        self.act_again(client, rest_us);
    }

    fn act_again(&mut self, client: usize, rest_us: u64) {
        let at = self.world.now().after_us(rest_us.max(1));
        self.world.event_queue.at(at, ClusterEvent::Redis(RedisEvent::RecordAction { client }));
    }

    fn connect(&mut self, client: usize) {
        let now = self.world.now();
        let listening: Vec<usize> = self
            .world
            .hosts
            .iter()
            .filter(|host| host.is_up)
            .flat_map(|host| host.instance_range.clone().zip(&host.slots))
            .filter(|(_, slot)| slot.instance.is_some())
            .map(|(place, _)| place)
            .collect();
        let keyspaces = self.keyspaces();
        if listening.is_empty() || keyspaces.is_empty() {
            return;
        }
        let place = *self.world.redis.random.pick(&listening);
        let keyspace = *self.world.redis.random.pick(&keyspaces);
        let keyspace = self.world.redis.clients[client].last.first().map_or(keyspace, |last| last.0);
        if let Some(found) = self.world.watch.map.keyspace(keyspace) {
            let is_apart = self.world.redis.behaviour.is_cross_partition;
            let names = &mut self.world.redis.names;
            let named = names.entry(keyspace).or_insert_with(|| key_names(found.config(), is_apart));
            self.world.history.redis.names.entry(keyspace).or_insert_with(|| named.clone());
        }
        let link = self.world.redis.network.open_to(now, Opener::Redis { client }, place, true);
        self.world.redis.connections += 1;
        self.world.trace.record(now, format_args!("r{client} opens redis {link} to instance {place}"));
        let connection = self.world.redis.connections;
        let found = &mut self.world.redis.clients[client];
        (found.link, found.is_open, found.connection) = (Some(link), false, connection);
        found.keyspace = Some(keyspace);
    }

    /// The client closes its connection: it never learns the rest.
    fn leave(&mut self, client: usize) {
        let now = self.world.now();
        if let Some(link) = self.world.redis.clients[client].link {
            self.world.redis.network.close(now, link, LinkEnd::Opener);
        }
        self.connection_ends(client);
    }

    fn connection_ends(&mut self, client: usize) {
        let now = self.world.now();
        let found = &mut self.world.redis.clients[client];
        (found.link, found.is_open, found.unsent) = (None, false, None);
        found.input.clear();
        found.listings.iter_mut().for_each(ListingClient::connection_ends);
        for pending in std::mem::take(&mut found.pending) {
            let Some(call) = pending.call else { continue };
            let call = &mut self.world.history.redis.calls[call];
            (call.end, call.returned) = (RedisEnd::Unknown, Some(now));
        }
    }

    pub(super) fn send_commands(&mut self, client: usize, link: LinkId) {
        let now = self.world.now();
        let found = &mut self.world.redis.clients[client];
        let Some(keyspace) = found.keyspace else { return };
        let is_watched = found.pending.back().is_some_and(|pending| !pending.replies.is_empty());
        if let Some(rest) = found.unsent.take_if(|_| is_watched) {
            self.world.redis.network.send(now, link, LinkEnd::Node, &rest);
        } else if found.unsent.is_some() {
            return;
        }
        let last = std::mem::take(&mut self.world.redis.clients[client].last);
        if last.first().is_some_and(|(of, ..)| *of != keyspace) {
            self.world.redis.clients[client].last = last;
            return self.leave(client);
        }
        let mut out = Vec::new();
        if !last.is_empty() && self.world.redis.clients[client].listings.is_some() {
            for listing in LAST_LISTINGS {
                self.add_call(client, keyspace, (0, RedisCommand::Listing(listing)), &mut out);
            }
        }
        for (_, group, step) in last {
            self.add_call(client, keyspace, (group, RedisCommand::One(step)), &mut out);
        }
        if self.world.phase < ClusterPhase::Quiet {
            if self.world.watch.is_dropped(keyspace) {
                return self.leave(client);
            }
            let count = 1 + self.world.redis.random.below(BURST_MAX);
            for _ in 0..count {
                if self.world.redis.clients[client].pending.len() >= DEPTH {
                    break;
                }
                let drawn = self.draw_command(keyspace);
                let (group, is_long) = (drawn.0, matches!(drawn.1, RedisCommand::One(RedisStep::SetLong(_))));
                self.add_call(client, keyspace, drawn, &mut out);
                if is_long {
                    self.add_call(client, keyspace, (group, RedisCommand::Repeated), &mut out);
                }
                if self.world.redis.clients[client].unsent.is_some() {
                    break;
                }
            }
            if self.world.redis.clients[client].unsent.is_none() {
                let RedisWorld { clients, tokens, .. } = &mut self.world.redis;
                let drawn = clients[client].listings.as_mut().map(|one| one.draw(keyspace, tokens));
                for command in drawn.into_iter().flatten() {
                    self.add_call(client, keyspace, command, &mut out);
                }
            }
        }
        if !out.is_empty() {
            self.world.redis.network.send(now, link, LinkEnd::Node, &out);
        }
        let leaves =
            self.world.redis.random.chance(1, LEAVES_ONE_OF) && self.world.phase == ClusterPhase::Faults;
        if leaves && self.world.redis.random.chance(1, 2) {
            self.leave(client);
        }
    }

    pub(super) fn add_call(
        &mut self,
        client: usize,
        keyspace: KeyspaceId,
        (group, command): (usize, RedisCommand),
        out: &mut Vec<u8>,
    ) {
        let now = self.world.now();
        let is_watched = matches!(command, RedisCommand::Watched(_));
        let rests = is_watched
            && self.world.redis.behaviour.rests_after_watch
            && self.world.redis.random.chance(1, 2);
        let Some(names) = self.world.redis.names.get(&keyspace) else { return };
        let found = &mut self.world.redis.clients[client];
        found.unsent = add_whole(out, &names[group], &command, rests);
        let (call, requested) = (Some(self.world.history.redis.calls.len()), replies_to(&command));
        found.pending.push_back(PendingCommand { call, since: now, replies: Vec::new(), requested });
        let connection = found.connection;
        self.world.trace.record(now, format_args!("r{client} asks {keyspace} group {group}: {command:?}"));
        self.world.history.redis.calls.push(RedisCall {
            client,
            connection,
            keyspace,
            group,
            command,
            invoked: now,
            watched: None,
            returned: None,
            end: RedisEnd::Open,
        });
    }

    fn draw_command(&mut self, keyspace: KeyspaceId) -> (usize, RedisCommand) {
        let known = self.world.redis.texts.get(&(keyspace, 0)).copied();
        let random = &mut self.world.redis.random;
        let spans = self.world.redis.behaviour.is_cross_partition;
        // Every other moment all clients use the keys that are in several partitions, so that they conflict.
        let is_rush = (self.world.event_queue.now().0 / RUSH_US).is_multiple_of(2);
        let group = match spans && random.chance(if is_rush { 6 } else { 1 }, 8) {
            true => GROUPS - 1,
            false => random.below(GROUPS as u64) as usize,
        };
        let mut tokens = self.world.redis.tokens;
        let mut step = || {
            tokens += 1;
            match random.below(16) {
                0 | 1 => RedisStep::Set(tokens),
                2 | 3 => RedisStep::Append(tokens),
                4 | 5 => RedisStep::Get,
                6 => RedisStep::GetDel,
                7..=9 => RedisStep::Incr,
                10 => RedisStep::GetCounter,
                11..=13 => RedisStep::Push(tokens),
                14 => RedisStep::Range,
                _ if tokens.is_multiple_of(4) => RedisStep::DelList,
                _ => RedisStep::Range,
            }
        };
        let mut steps = vec![step(), step(), step()];
        self.world.redis.tokens = tokens;
        let random = &mut self.world.redis.random;
        let command = match random.below(12) {
            _ if self.world.redis.long_replies_left > 0 && random.chance(1, LONG_ONE_OF) => {
                self.world.redis.long_replies_left -= 1;
                match random.chance(1, 2) {
                    true => RedisCommand::One(RedisStep::SetLong(tokens)),
                    false => RedisCommand::Repeated,
                }
            }
            _ if spans && random.chance(1, 5) => match random.below(5) {
                0 | 1 => RedisCommand::Many([RedisStep::Get, RedisStep::GetCounter]),
                2 | 3 => RedisCommand::Many([
                    RedisStep::Set(tokens),
                    RedisStep::SetCounter(i64::try_from(tokens).unwrap_or_default() * 1_000),
                ]),
                _ => RedisCommand::DelAll,
            },
            0 => RedisCommand::Ping(tokens),
            1 | 2 => {
                steps.truncate(1 + random.below(3) as usize);
                match tokens % 2 {
                    0 => RedisCommand::Watched(steps),
                    _ => RedisCommand::Transaction(steps),
                }
            }
            3 if random.chance(1, 2) => {
                // The text of this token is there, comes soon, or never.
                let token = known.unwrap_or(tokens) + random.below(3);
                return (0, RedisCommand::Wait { token, ms: random.between(5, 600) });
            }
            _ => RedisCommand::One(steps[0]),
        };
        if let (0, RedisCommand::One(RedisStep::Set(token))) = (group, &command) {
            self.world.redis.texts.insert((keyspace, 0), *token);
        }
        (group, command)
    }

    pub(super) fn receive(&mut self, client: usize, link: LinkId, what: LinkArrival) {
        let now = self.world.now();
        if self.world.redis.clients[client].link != Some(link) {
            return;
        }
        match what {
            LinkArrival::Opened => {
                let found = &mut self.world.redis.clients[client];
                found.is_open = true;
                found.pending.push_back(PendingCommand {
                    call: None,
                    since: now,
                    replies: Vec::new(),
                    requested: 1,
                });
                let name = found.keyspace.and_then(|id| self.world.watch.map.keyspace(id));
                let name = name
                    .map_or(REDIS_KEYSPACES[0].to_owned(), |found| found.config().name.as_str().to_owned());
                let mut out = Vec::new();
                add_command(&mut out, &[b"ZH.KEYSPACE", name.as_bytes()]);
                self.world.redis.network.send(now, link, LinkEnd::Node, &out);
                self.send_commands(client, link);
            }
            LinkArrival::Bytes(bytes) => {
                self.world.redis.clients[client].input.extend_from_slice(&bytes);
                self.parse_replies(client);
            }
            LinkArrival::Refused | LinkArrival::Disconnected => self.connection_ends(client),
        }
    }

    fn parse_replies(&mut self, client: usize) {
        let now = self.world.now();
        loop {
            let found = &mut self.world.redis.clients[client];
            if found.input.is_empty() {
                return;
            }
            let (value, used) = match parse(&found.input) {
                Ok(Some(parsed)) => parsed,
                Ok(None) => return,
                Err(what) => {
                    self.world.record_violation("redis", format!("r{client}: {what}"));
                    return self.leave(client);
                }
            };
            found.input.drain(..used);
            let Some(pending) = found.pending.front_mut() else {
                let what = format!("r{client} has not asked for {value:?}");
                return self.world.record_violation("redis", what);
            };
            pending.replies.push(value);
            if let ([_], Some(call)) = (&pending.replies[..], pending.call) {
                let call = &mut self.world.history.redis.calls[call];
                call.watched = matches!(call.command, RedisCommand::Watched(_)).then_some(now);
            }
            if pending.replies.len() < pending.requested {
                continue;
            }
            let Some(pending) = found.pending.pop_front() else { return };
            if !self.command_ends(client, &pending) {
                return self.leave(client);
            }
        }
    }

    /// A command has all its replies. Whether the connection goes on.
    fn command_ends(&mut self, client: usize, pending: &PendingCommand) -> bool {
        let now = self.world.now();
        let Some(call) = pending.call else {
            // An instance that does not know the keyspace yet is left again.
            return matches!(&pending.replies[..], [RespValue::Status(text)] if text == "OK");
        };
        let end = end_of(&self.world.history.redis.calls[call].command, &pending.replies);
        let end = match end {
            Ok(end) => end,
            Err(what) => {
                self.world.record_violation("redis", format!("r{client}: {what}"));
                return false;
            }
        };
        let is_watched = matches!(self.world.history.redis.calls[call].command, RedisCommand::Watched(_));
        self.world.coverage.blobs_seen(
            match &end {
                RedisEnd::Done(_) if is_watched => "redis: watched transactions done",
                RedisEnd::Aborted => "redis: watched transactions aborted",
                RedisEnd::Done(_) | RedisEnd::Unwatched(_) => "redis: commands done",
                RedisEnd::NotDone(_) => "redis: commands refused",
                _ => "redis: commands in doubt",
            },
            1,
        );
        let command = self.world.history.redis.calls[call].command.clone();
        if let Some(listings) = &mut self.world.redis.clients[client].listings {
            for case in listings.ends(&command, &end) {
                self.world.coverage.blob(case);
            }
        }
        let call = &mut self.world.history.redis.calls[call];
        (call.end, call.returned) = (end, Some(now));
        let text = call.to_string();
        self.world.trace.record(now, format_args!("redis reply {text}"));
        true
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::KeyspaceName;

    use super::*;

    #[test]
    fn keys_of_a_group_stay_in_one_partition() {
        let partitions = PartitionCount::new(2).unwrap();
        let config =
            KeyspaceConfig { partitions, ..KeyspaceConfig::new(KeyspaceName::new("redis").unwrap(), 7) };
        let finest = PartitionCount::new(PARTITIONS_MAX).unwrap();
        let partition = |name: &String| partition_of(config.hash.hash(config.seed, name.as_bytes()), finest);
        let names = key_names(&config, false);
        let (apart, together) = names.split_last().unwrap();
        for group in together {
            assert!(group.iter().all(|name| partition(name) == partition(&group[0])), "{group:?}");
        }
        assert!(apart.iter().any(|name| partition(name) != partition(&apart[0])), "{apart:?}");
        let apart = key_names(&config, true).pop().unwrap();
        let partition =
            |name: &String| partition_of(config.hash.hash(config.seed, name.as_bytes()), partitions);
        assert!(partition(&apart[0]) != partition(&apart[1]) && partition(&apart[0]) != partition(&apart[2]));
    }
}
