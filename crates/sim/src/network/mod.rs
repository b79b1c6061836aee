//! A network as TCP presents it: streams of bytes that arrive in order, in pieces of any size,
//! late, or not at all. Connections break in both directions or in one; within a connection nothing
//! is repeated or reordered.
//!
//! It decides what happens to bytes and when; the world carries it out.

use std::collections::BTreeMap;
use std::fmt;

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_session::ConnectionId;

use crate::scenario::NetworkFaults;

/// A connection, from the request to open it on. Numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkId(pub(crate) u64);

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "l{}", self.0)
    }
}

/// The opener of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opener {
    /// A client's session, in this life of the client.
    Client { client: usize, life: u32, connection: ConnectionId },
    /// A sender of copied frames, which ignores answers.
    CopiedFrames,
    /// A Redis client.
    Redis { client: usize },
    /// An instance, for units to an instance of the node `target`.
    Units { host: usize, slot: usize, life: u32, target: usize },
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    Opener,
    Node,
}

/// An arrival at an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkArrival {
    /// The connection is open.
    Opened,
    /// The port has no listener.
    Refused,
    Bytes(Vec<u8>),
    /// The connection is gone; nothing arrives any more.
    Disconnected,
}

/// Data on its way.
#[derive(Clone, Debug)]
pub(crate) struct PacketInTransit {
    pub(crate) at: Time,
    pub(crate) link: LinkId,
    pub(crate) to: LinkEnd,
    pub(crate) what: LinkArrival,
    /// The state of the pipe when the data was sent: if the pipe has been emptied since, the data
    /// is lost.
    pub(crate) pipe_state: u32,
}

#[derive(Debug)]
struct Link {
    opener: Opener,
    instance: usize,
    to_node: Pipe,
    to_opener: Pipe,
    /// Both ends know, or will know, that nothing arrives any more.
    is_over: bool,
}

/// One direction.
#[derive(Debug, Default)]
struct Pipe {
    /// When the last piece so far arrives: the next arrives later.
    last: Time,
    /// It accepts nothing more: what is sent is lost.
    is_shut: bool,
    pipe_state: u32,
}

#[derive(Debug)]
pub(crate) struct Network {
    links: BTreeMap<LinkId, Link>,
    random: Random,
    faults: NetworkFaults,
    /// Faults have ended.
    is_fault_free: bool,
    /// Per client: nothing passes before then.
    cut_off: Vec<Time>,
    /// Per client and instance: nothing passes before then.
    cut_off_from: BTreeMap<(usize, usize), Time>,
    /// From one node to another: nothing passes before then.
    cut_nodes: BTreeMap<(usize, usize), Time>,
    travelling: Vec<PacketInTransit>,
}

impl Network {
    pub(crate) fn new(random: Random, faults: NetworkFaults, clients: usize) -> Self {
        let (links, travelling) = (BTreeMap::new(), Vec::new());
        let (cut_off, cut_off_from) = (vec![Time(0); clients], BTreeMap::new());
        Self {
            links,
            random,
            faults,
            is_fault_free: false,
            cut_off,
            cut_off_from,
            cut_nodes: BTreeMap::new(),
            travelling,
        }
    }

    /// Everything that was sent since the last call.
    pub(crate) fn take_in_transit(&mut self) -> Vec<PacketInTransit> {
        std::mem::take(&mut self.travelling)
    }

    /// Opens a connection to an instance; none if the address has no listener.
    pub(crate) fn open(&mut self, now: Time, opener: Opener, instance: Option<usize>) -> LinkId {
        let refused = opener != Opener::CopiedFrames && self.happens(self.faults.refused);
        self.open_to(now, opener, instance.unwrap_or(usize::MAX), instance.is_some() && !refused)
    }

    /// The same, with the instance known also if it does not listen.
    pub(crate) fn open_to(&mut self, now: Time, opener: Opener, instance: usize, listens: bool) -> LinkId {
        let id = LinkId(self.links.len() as u64);
        let (to_node, to_opener) = (Pipe::default(), Pipe::default());
        let is_over = !listens;
        self.links.insert(id, Link { opener, instance, to_node, to_opener, is_over });
        if is_over {
            self.put(now, id, LinkEnd::Opener, LinkArrival::Refused);
            self.shut(id, LinkEnd::Opener);
            self.shut(id, LinkEnd::Node);
        } else {
            self.put(now, id, LinkEnd::Node, LinkArrival::Opened);
            self.put(now, id, LinkEnd::Opener, LinkArrival::Opened);
        }
        id
    }

    pub(crate) fn opener(&self, link: LinkId) -> Option<Opener> {
        self.links.get(&link).map(|link| link.opener)
    }

    pub(crate) fn instance(&self, link: LinkId) -> usize {
        self.links.get(&link).map_or(usize::MAX, |link| link.instance)
    }

    /// Whether data still arrives: its connection has not been reset since it was sent.
    pub(crate) fn arrives(&self, thing: &PacketInTransit) -> bool {
        self.links.get(&thing.link).is_some_and(|link| link.pipe(thing.to).pipe_state == thing.pipe_state)
    }

    /// One end hands bytes to the network.
    pub(crate) fn send(&mut self, now: Time, link: LinkId, to: LinkEnd, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = self.piece(rest.len());
            let (piece, after) = rest.split_at(length);
            rest = after;
            let mut piece = piece.to_vec();
            if self.happens(self.faults.damage) {
                let at = self.random.below(piece.len() as u64) as usize;
                piece[at] ^= 1 << self.random.below(8);
            }
            self.put(now, link, to, LinkArrival::Bytes(piece));
        }
        if self.happens(self.faults.breaks) {
            self.break_randomly(now, link);
        }
        if self.happens(self.faults.half_open) {
            let which = self.random.below(3);
            if which != 0 {
                self.shut(link, LinkEnd::Opener);
            }
            if which != 1 {
                self.shut(link, LinkEnd::Node);
            }
        }
    }

    /// One end closes the connection in order: the other end learns of it after all earlier data.
    pub(crate) fn close(&mut self, now: Time, link: LinkId, by: LinkEnd) {
        let other = if by == LinkEnd::Node { LinkEnd::Opener } else { LinkEnd::Node };
        let can_learn = self.can_learn(link, other);
        self.put(now, link, other, LinkArrival::Disconnected);
        self.shut(link, other);
        self.empty(link, by);
        self.shut(link, by);
        if can_learn {
            self.over(link);
        }
    }

    /// Whether an end of a connection learns of its end: nothing arrives at an end of a half-open connection before it is reset.
    /// Clients need no reset, as they give up a connection that is silent.
    fn can_learn(&self, link: LinkId, end: LinkEnd) -> bool {
        self.links.get(&link).is_none_or(|link| {
            matches!(link.opener, Opener::Client { .. } | Opener::CopiedFrames) || !link.pipe(end).is_shut
        })
    }

    /// The node's process is gone, and every connection with it. If `silently`, openers find out by
    /// themselves, or when the node is back; otherwise data already sent may still arrive before
    /// they learn of it. `is_its` selects its instances.
    pub(crate) fn lose_node(&mut self, now: Time, silently: bool, is_its: impl Fn(usize) -> bool) {
        for id in self.links_where(|link| !link.is_over && is_its(link.instance)) {
            self.empty(id, LinkEnd::Node);
            self.shut(id, LinkEnd::Node);
            if !silently && self.can_learn(id, LinkEnd::Opener) {
                if self.random.chance(1, 2) {
                    self.empty(id, LinkEnd::Opener);
                }
                self.put(now, id, LinkEnd::Opener, LinkArrival::Disconnected);
                self.over(id);
            }
            self.shut(id, LinkEnd::Opener);
        }
    }

    /// The node is back: connections that it does not know are reset, and nothing more arrives over
    /// them.
    pub(crate) fn node_is_back(&mut self, now: Time, is_its: impl Fn(usize) -> bool) {
        for id in self.links_where(|link| !link.is_over && link.to_node.is_shut && is_its(link.instance)) {
            self.reset(now, id);
        }
    }

    /// Nothing passes to and from a client until then. This alone loses nothing: bytes are sent
    /// again.
    pub(crate) fn cut_off(&mut self, client: usize, until: Time) {
        self.cut_off[client] = until;
    }

    /// Nothing passes between a client and these instances until then.
    pub(crate) fn cut_off_from(&mut self, client: usize, instances: std::ops::Range<usize>, until: Time) {
        self.cut_off_from.extend(instances.map(|instance| ((client, instance), until)));
    }

    /// Nothing passes from one node to another until then.
    pub(crate) fn cut_nodes(&mut self, from: usize, to: usize, until: Time) {
        let known = self.cut_nodes.entry((from, to)).or_insert(until);
        *known = until.max(*known);
    }

    /// The process that has opened these connections is gone. If `silently`, the other ends find
    /// out when it is back; otherwise once they have what it had sent.
    pub(crate) fn lose_openers(&mut self, now: Time, silently: bool, is_its: impl Fn(Opener) -> bool) {
        for id in self.links_where(|link| !link.is_over && is_its(link.opener)) {
            self.empty(id, LinkEnd::Opener);
            self.shut(id, LinkEnd::Opener);
            if !silently && self.can_learn(id, LinkEnd::Node) {
                self.put(now, id, LinkEnd::Node, LinkArrival::Disconnected);
                self.over(id);
            }
            self.shut(id, LinkEnd::Node);
        }
    }

    /// That process is back: connections that it does not know are reset.
    pub(crate) fn opener_is_back(&mut self, now: Time, is_its: impl Fn(Opener) -> bool) {
        for id in self.links_where(|link| !link.is_over && link.to_opener.is_shut && is_its(link.opener)) {
            self.reset(now, id);
        }
    }

    /// No network faults occur from now on, and both ends of half-open connections learn that these
    /// are gone.
    pub(crate) fn end_faults(&mut self, now: Time) {
        self.is_fault_free = true;
        self.cut_off.fill(Time(0));
        self.cut_off_from.clear();
        self.cut_nodes.clear();
        for id in self.links_where(|link| !link.is_over && (link.to_node.is_shut || link.to_opener.is_shut)) {
            self.reset(now, id);
        }
    }

    fn links_where(&self, which: impl Fn(&Link) -> bool) -> Vec<LinkId> {
        self.links.iter().filter(|(_, link)| which(link)).map(|(id, _)| *id).collect()
    }

    /// Data on its way is lost, and both ends learn of it.
    fn reset(&mut self, now: Time, link: LinkId) {
        for end in [LinkEnd::Node, LinkEnd::Opener] {
            self.empty(link, end);
            if let Some(link) = self.links.get_mut(&link) {
                link.pipe_mut(end).is_shut = false;
            }
            self.put(now, link, end, LinkArrival::Disconnected);
            self.shut(link, end);
        }
        self.over(link);
    }

    /// Either both ends learn of it and data on its way is lost, or one learns at once while its
    /// data still arrives, late.
    fn break_randomly(&mut self, now: Time, link: LinkId) {
        let (first, other) = match self.random.below(3) {
            0 => return self.reset(now, link),
            1 => (LinkEnd::Opener, LinkEnd::Node),
            _ => (LinkEnd::Node, LinkEnd::Opener),
        };
        let late = now.after_us(self.random.below(self.faults.repeat_us + 1));
        self.put(now, link, first, LinkArrival::Disconnected);
        self.put(late, link, other, LinkArrival::Disconnected);
        self.shut(link, first);
        self.shut(link, other);
        self.over(link);
    }

    /// Sends data, behind the data that is already on its way.
    fn put(&mut self, now: Time, id: LinkId, to: LinkEnd, what: LinkArrival) {
        let mut delay_us = self.faults.delay_us + self.random.below(self.faults.jitter_us + 1);
        if self.happens(self.faults.spike) {
            delay_us += self.random.below(self.faults.spike_us + 1);
        }
        let Some(link) = self.links.get_mut(&id) else { return };
        let blocked_until = match link.opener {
            Opener::Client { client, .. } => {
                let from_it = self.cut_off_from.get(&(client, link.instance)).copied();
                self.cut_off[client].max(from_it.unwrap_or(Time(0)))
            }
            Opener::Units { host, target, .. } => {
                let way = if to == LinkEnd::Node { (host, target) } else { (target, host) };
                self.cut_nodes.get(&way).copied().unwrap_or(Time(0))
            }
            Opener::CopiedFrames | Opener::Redis { .. } => Time(0),
        };
        let pipe = link.pipe_mut(to);
        if pipe.is_shut {
            return;
        }
        let at = now.after_us(delay_us).max(blocked_until).max(pipe.last.after_us(1));
        pipe.last = at;
        let filling = pipe.pipe_state;
        self.travelling.push(PacketInTransit { at, link: id, to, what, pipe_state: filling });
    }

    /// Data on its way to this end is lost.
    fn empty(&mut self, link: LinkId, to: LinkEnd) {
        if let Some(link) = self.links.get_mut(&link) {
            link.pipe_mut(to).pipe_state += 1;
        }
    }

    fn shut(&mut self, link: LinkId, to: LinkEnd) {
        if let Some(link) = self.links.get_mut(&link) {
            link.pipe_mut(to).is_shut = true;
        }
    }

    fn over(&mut self, link: LinkId) {
        if let Some(link) = self.links.get_mut(&link) {
            link.is_over = true;
        }
    }

    /// The number of bytes of the next piece of `left`.
    fn piece(&mut self, left: usize) -> usize {
        match self.random.below(4) {
            0 => 1 + self.random.below(left as u64) as usize,
            1 => left.min(1 + self.random.below(64) as usize),
            _ => left,
        }
    }

    fn happens(&mut self, parts_of_thousand: u64) -> bool {
        !self.is_fault_free && self.random.chance(parts_of_thousand, 1000)
    }
}

impl Link {
    fn pipe(&self, to: LinkEnd) -> &Pipe {
        match to {
            LinkEnd::Node => &self.to_node,
            LinkEnd::Opener => &self.to_opener,
        }
    }

    fn pipe_mut(&mut self, to: LinkEnd) -> &mut Pipe {
        match to {
            LinkEnd::Node => &mut self.to_node,
            LinkEnd::Opener => &mut self.to_opener,
        }
    }
}

#[cfg(test)]
mod tests;
