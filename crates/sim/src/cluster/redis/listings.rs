//! The commands of Redis clients over a whole keyspace, `KEYS`, `DBSIZE` and `SCAN`, and long lists. Only some runs
//! have them. They draw from a stream of their own.

use zerohop_base::random::Random;
use zerohop_wire::ids::KeyspaceId;

use super::super::scenario::LISTINGS_FORK;
use super::clients::add_command;
use super::{GROUPS, RedisRun};
use crate::redis::{KeyspaceListing, MANY_VALUES, RedisCommand, RedisEnd, RedisKey, RedisStep, StepReply};
use crate::streams::Draw;

/// One of so many bursts ends with such a command.
const LISTING_ONE_OF: u64 = 3;

/// One of so many of these is a new list that is read as a whole.
const LONG_LIST_ONE_OF: u64 = 12;

/// Long lists of each client.
const LONG_LISTS_MAX: u32 = 3;

/// A client that sends these commands.
#[derive(Debug)]
pub(super) struct ListingClient {
    random: Random,
    long_lists_left: u32,
    traversals: u64,
    traversal: Option<ScanTraversal>,
}

/// A traversal of a keyspace with `SCAN`. It goes on over later connections.
#[derive(Debug)]
struct ScanTraversal {
    keyspace: KeyspaceId,
    number: u64,
    /// The cursor of the next page.
    cursor: u64,
    of: Option<RedisKey>,
    /// A page is under way.
    is_requested: bool,
}

impl ListingClient {
    /// The listing side of a client of this number.
    pub(super) fn new(random: &Random, client: u64) -> ListingClient {
        let random = random.fork(LISTINGS_FORK).fork(client);
        ListingClient { random, long_lists_left: LONG_LISTS_MAX, traversals: 0, traversal: None }
    }

    fn draw_listing(&mut self, keyspace: KeyspaceId) -> KeyspaceListing {
        let kinds = [None, None, None, Some(RedisKey::Text), Some(RedisKey::Counter), Some(RedisKey::List)];
        let of = *self.random.pick(&kinds);
        let choice = self.random.below(6);
        let is_other = self.traversal.as_ref().is_some_and(|one| one.keyspace != keyspace);
        match choice {
            0 => return KeyspaceListing::Keys(of),
            1 => return KeyspaceListing::Count,
            _ if self.traversal.as_ref().is_some_and(|one| one.is_requested) => {
                return KeyspaceListing::Keys(of);
            }
            // The traversal of the other keyspace is mostly kept until a connection uses that again.
            2 | 3 if is_other => return KeyspaceListing::Count,
            _ => {}
        }
        if is_other || self.traversal.is_none() {
            self.traversals += 1;
            let (number, cursor) = (self.traversals, 0);
            self.traversal = Some(ScanTraversal { keyspace, number, cursor, of, is_requested: false });
        }
        let count = *self.random.pick(&[1, 2, 4, 10]);
        let Some(traversal) = &mut self.traversal else { return KeyspaceListing::Count };
        traversal.is_requested = true;
        let ScanTraversal { number, cursor, of, .. } = *traversal;
        KeyspaceListing::Page { traversal: number, cursor, count, of }
    }

    /// The connection has ended: a page that was under way is asked for again.
    pub(super) fn connection_ends(&mut self) {
        if let Some(traversal) = &mut self.traversal {
            traversal.is_requested = false;
        }
    }

    /// A page of the traversal has come, or was refused. Whether it was the last one.
    fn page_ends(&mut self, number: u64, end: &RedisEnd) -> bool {
        let Some(traversal) = self.traversal.as_mut().filter(|one| one.number == number) else {
            return false;
        };
        traversal.is_requested = false;
        let RedisEnd::Done(replies) = end else { return false };
        let Some(StepReply::Number(next)) = replies.first() else { return false };
        traversal.cursor = u64::try_from(*next).unwrap_or_default();
        let is_last = traversal.cursor == 0;
        if is_last {
            self.traversal = None;
        }
        is_last
    }
}

pub(super) fn add_listing(out: &mut Vec<u8>, listing: KeyspaceListing) {
    match listing {
        KeyspaceListing::Keys(of) => add_command(out, &[b"KEYS", pattern_of(of)]),
        KeyspaceListing::Count => add_command(out, &[b"DBSIZE"]),
        KeyspaceListing::Page { cursor, count, of, .. } => {
            let (cursor, count) = (cursor.to_string(), count.to_string());
            let (cursor, count) = (cursor.as_bytes(), count.as_bytes());
            match of {
                Some(_) => {
                    add_command(out, &[b"SCAN", cursor, b"MATCH", pattern_of(of), b"COUNT", count]);
                }
                None => add_command(out, &[b"SCAN", cursor, b"COUNT", count]),
            }
        }
    }
}

/// The pattern for the names of these keys: see [`key_names`](super::clients::key_names).
fn pattern_of(of: Option<RedisKey>) -> &'static [u8] {
    match of {
        None => b"*",
        Some(RedisKey::Text) => b"t*",
        Some(RedisKey::Counter) => b"n*",
        Some(RedisKey::List) => b"l*",
    }
}

impl RedisRun<'_> {
    /// Adds a command over the whole keyspace, or those of a long list, to a burst of a client.
    pub(super) fn add_listings(&mut self, client: usize, keyspace: KeyspaceId, out: &mut Vec<u8>) {
        let tokens = self.world.redis.tokens;
        let Some(listings) = &mut self.world.redis.clients[client].listings else { return };
        if !listings.random.chance(1, LISTING_ONE_OF) {
            return;
        }
        if listings.long_lists_left > 0 && listings.random.chance(1, LONG_LIST_ONE_OF) {
            listings.long_lists_left -= 1;
            let group = listings.random.below(GROUPS as u64) as usize;
            let first = tokens + 1;
            self.world.redis.tokens += 2 * MANY_VALUES;
            for step in [
                RedisStep::PushMany(first),
                RedisStep::PushMany(first + MANY_VALUES),
                RedisStep::Range,
                RedisStep::Range,
                RedisStep::DelList,
            ] {
                self.add_call(client, keyspace, (group, RedisCommand::One(step)), out);
            }
            return;
        }
        let listing = listings.draw_listing(keyspace);
        self.add_call(client, keyspace, (0, RedisCommand::Listing(listing)), out);
    }

    /// After all faults a client that sends such commands lists its keyspace once more.
    pub(super) fn add_last_listings(&mut self, client: usize, keyspace: KeyspaceId, out: &mut Vec<u8>) {
        if self.world.redis.clients[client].listings.is_some() {
            for listing in [KeyspaceListing::Keys(None), KeyspaceListing::Count] {
                self.add_call(client, keyspace, (0, RedisCommand::Listing(listing)), out);
            }
        }
    }

    /// A command has ended.
    pub(super) fn listing_ends(&mut self, client: usize, command: &RedisCommand, end: &RedisEnd) {
        let is_done = matches!(end, RedisEnd::Done(_));
        if *command == RedisCommand::One(RedisStep::Range)
            && let RedisEnd::Done(replies) = end
            && let Some(StepReply::List(values)) = replies.first()
            && values.len() as u64 >= 2 * MANY_VALUES
        {
            self.world.coverage.blob("redis: long lists read");
        }
        let RedisCommand::Listing(listing) = command else { return };
        match listing {
            KeyspaceListing::Keys(_) if is_done => self.world.coverage.blob("redis: keys listed"),
            KeyspaceListing::Count if is_done => self.world.coverage.blob("redis: keys counted"),
            KeyspaceListing::Page { traversal, .. } => {
                let listings = self.world.redis.clients[client].listings.as_mut();
                let is_last = listings.is_some_and(|listings| listings.page_ends(*traversal, end));
                if is_done {
                    self.world.coverage.blob("redis: scan pages");
                }
                if is_last {
                    self.world.coverage.blob("redis: scans to the end");
                }
            }
            _ => self.world.coverage.blob("redis: listings refused"),
        }
    }
}
