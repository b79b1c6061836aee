//! The commands of Redis clients over a whole keyspace, `KEYS`, `DBSIZE` and `SCAN`, and long lists. Only some runs
//! have them. They draw from a stream of their own.

use zerohop_base::random::Random;
use zerohop_wire::ids::KeyspaceId;

use super::super::scenario::LISTINGS_FORK;
use super::GROUPS;
use crate::redis::{KeyspaceListing, MANY_VALUES, RedisCommand, RedisEnd, RedisKey, RedisStep, StepReply};
use crate::streams::Draw;

/// One of so many bursts ends with such a command.
const LISTING_ONE_OF: u64 = 3;

/// One of so many of these is a new list that is read as a whole.
const LONG_LIST_ONE_OF: u64 = 12;

/// Long lists of each client.
const LONG_LISTS_MAX: u32 = 3;

/// After all faults a client that sends such commands lists its keyspace once more.
pub(super) const LAST_LISTINGS: [KeyspaceListing; 2] = [KeyspaceListing::Keys(None), KeyspaceListing::Count];

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

    /// The commands over the whole keyspace, or those of a long list, that end a burst, with their groups. The values of lists
    /// have the next `tokens`.
    pub(super) fn draw(&mut self, keyspace: KeyspaceId, tokens: &mut u64) -> Vec<(usize, RedisCommand)> {
        if !self.random.chance(1, LISTING_ONE_OF) {
            return Vec::new();
        }
        if self.long_lists_left > 0 && self.random.chance(1, LONG_LIST_ONE_OF) {
            self.long_lists_left -= 1;
            let group = self.random.below(GROUPS as u64) as usize;
            let first = *tokens + 1;
            *tokens += 2 * MANY_VALUES;
            let steps = [
                RedisStep::PushMany(first),
                RedisStep::PushMany(first + MANY_VALUES),
                RedisStep::Range,
                RedisStep::Range,
                RedisStep::DelList,
            ];
            return steps.map(|step| (group, RedisCommand::One(step))).to_vec();
        }
        vec![(0, RedisCommand::Listing(self.draw_listing(keyspace)))]
    }

    /// A command has ended. The cases that this run has had with it.
    pub(super) fn ends(&mut self, command: &RedisCommand, end: &RedisEnd) -> Vec<&'static str> {
        let is_done = matches!(end, RedisEnd::Done(_));
        if *command == RedisCommand::One(RedisStep::Range)
            && let RedisEnd::Done(replies) = end
            && let Some(StepReply::List(values)) = replies.first()
            && values.len() as u64 >= 2 * MANY_VALUES
        {
            return vec!["redis: long lists read"];
        }
        let RedisCommand::Listing(listing) = command else { return Vec::new() };
        match listing {
            KeyspaceListing::Keys(_) if is_done => vec!["redis: keys listed"],
            KeyspaceListing::Count if is_done => vec!["redis: keys counted"],
            KeyspaceListing::Page { traversal, .. } => {
                let is_last = self.page_ends(*traversal, end);
                let page = is_done.then_some("redis: scan pages");
                page.into_iter().chain(is_last.then_some("redis: scans to the end")).collect()
            }
            _ => vec!["redis: listings refused"],
        }
    }
}
