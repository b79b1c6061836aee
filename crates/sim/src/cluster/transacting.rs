//! The clients' part in transactions: what they begin, what they make of the answers, what they give up.
//!
//! ```text
//!   Commit, ReadMany ──────────────────────> one request ──> history
//!   ReadFirst ──> reads, with rests between ──> transaction that rests on them
//!                   └─ each a transaction of one read
//! ```

use std::collections::BTreeMap;

use zerohop_session::{Error, Item, ReadCounts, Reply, Request, Time};
use zerohop_wire::ids::{KeyspaceId, Timestamp};
use zerohop_wire::messages::{
    Brings, Change, Condition, Expiry, NumberType, Operation, Operator, Query, Read, Transform, Write,
};
use zerohop_wire::{AbortReason, Failure, Many};

use super::{Cluster, Event, Phase};
use crate::check::cycles::{Action, Fate};
use crate::streams::Draw;
use crate::transacted::{Transacted, Trouble};
use crate::workload::blobs::number_of;
use crate::workload::tokens::{FILLER, token};
use crate::workload::transactional::{Class, Deed, Draws, Key, Step};

const MS: u64 = 1_000;

/// Tokens of a session's operations from here on are those of deeds.
pub(super) const DEEDS_FROM: usize = 1 << 40;

/// Of so many things that a client begins, one is a deed.
const DEEDS_OF: u64 = 4;

/// Of a hundred of these, so many are about a blob,
const BLOBS_OF_100: u64 = 25;
/// and with those from there up to here a snapshot is opened.
const SNAPSHOTS_UPTO: u64 = 29;

/// What all clients have under way.
#[derive(Debug)]
pub(super) struct Transacting {
    pub(super) draws: Draws,
    open: BTreeMap<usize, Open>,
    next: usize,
    pub(super) opened: Opened,
}

/// Whether what has to be there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    No,
    Asked,
    Yes,
}

/// A deed under way.
#[derive(Debug)]
struct Open {
    client: usize,
    deed: Deed,
    /// When the operation at hand was begun, and its place in the history.
    at: usize,
    /// How long each of its operations may take.
    limit_us: u64,
    /// What it has read so far.
    got: Vec<(Key, Got)>,
    /// It has read all, and commits.
    is_committing: bool,
    is_opening: bool,
    /// It was begun beside another one, and its client begins nothing after it.
    is_rival: bool,
    /// A copy of one of its frames may be taken up later.
    is_haunted: bool,
}

/// What a read has brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Absent,
    List(Timestamp, Vec<u64>),
    Value(Timestamp, u64),
    Number(Timestamp, i64),
}

impl Got {
    pub(super) fn version(&self) -> Timestamp {
        match self {
            Got::Absent => Timestamp::ZERO,
            Got::List(version, _) | Got::Value(version, _) | Got::Number(version, _) => *version,
        }
    }
}

impl Transacting {
    pub(super) fn new(draws: Draws) -> Self {
        Self { draws, open: BTreeMap::new(), next: 0, opened: Opened::No }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Whatever this client is told of what it has under way, a copy may be taken up later.
    pub(super) fn haunt(&mut self, client: usize) {
        self.open.values_mut().filter(|open| open.client == client).for_each(|open| open.is_haunted = true);
    }
}

impl Cluster {
    /// The two keyspaces, once both have been there.
    pub(super) fn transactional(&self) -> Option<[KeyspaceId; 2]> {
        self.watch.transactional_ids()
    }

    /// Whether a client does something with transactions next: then it has begun.
    pub(super) fn begins_deed(&mut self, client: usize) -> bool {
        let chance = match self.focus(self.now()) {
            Some(focus) if self.transactional().is_some_and(|both| both.contains(&focus)) => DEEDS_OF - 1,
            _ => 1,
        };
        if !self.transacting.draws.random().chance(chance, DEEDS_OF) || self.transactional().is_none() {
            return false;
        }
        let (deed, is_opening) = match self.transacting.opened {
            Opened::Asked => return false,
            Opened::No => (Some(self.transacting.draws.opening()), true),
            // Blobs and snapshots are drawn by themselves.
            Opened::Yes => match self.transacting.draws.random().below(100) {
                0..BLOBS_OF_100 => (None, false),
                BLOBS_OF_100..SNAPSHOTS_UPTO => {
                    self.begin_snapshot(client);
                    (Some(self.transacting.draws.deed()), false)
                }
                _ if self.is_about_to_drop() => (Some(self.transacting.draws.wide_deed()), false),
                _ => (Some(self.transacting.draws.deed()), false),
            },
        };
        let random = self.transacting.draws.random();
        let is_short = self.scenario.impatient && self.phase == Phase::Faults && random.chance(1, 4);
        let limit_us = match is_short {
            true => random.between(100, 100 * MS),
            false => random.between(1_500 * MS, 12_000 * MS),
        };
        if is_opening {
            self.transacting.opened = Opened::Asked;
        }
        let Some(deed) = deed else {
            let deed = self.transacting.draws.blob();
            self.begin_blob(client, deed, limit_us);
            return true;
        };
        if !is_opening {
            self.draw_rivals(client, &deed);
        }
        self.begin_deed(client, deed, limit_us, (is_opening, false));
        true
    }

    pub(super) fn begin_deed(
        &mut self,
        client: usize,
        deed: Deed,
        limit_us: u64,
        (is_opening, is_rival): (bool, bool),
    ) {
        let number = DEEDS_FROM + self.transacting.next;
        self.transacting.next += 1;
        self.trace.say(self.now(), format_args!("c{client} begins deed #{number}: {deed:?}"));
        let open = Open {
            client,
            deed,
            at: 0,
            limit_us,
            got: Vec::new(),
            is_committing: false,
            is_opening,
            is_rival,
            is_haunted: false,
        };
        self.transacting.open.insert(number, open);
        self.go_on(number);
    }

    /// Everything is read once more, now that nothing is in the way.
    pub(super) fn read_all_transactional(&mut self) {
        let Some(both) = self.transactional().filter(|_| self.transacting.opened == Opened::Yes) else {
            return;
        };
        for class in [Class::List, Class::Register, Class::Account, Class::Cell] {
            // What was done in both is whole in the one that is left.
            let is_there = |key: &Key| !self.watch.is_dropped(both[key.keyspace]);
            let keys = Key::all(class).into_iter().filter(is_there).collect();
            self.begin_deed(0, Deed::ReadMany(keys), 8_000 * MS, (false, false));
        }
        self.read_all_blobs();
    }

    /// Sends what comes next of a deed.
    pub(super) fn go_on(&mut self, number: usize) {
        let now = self.now();
        let Some(both) = self.transactional() else { return };
        let Some(open) = self.transacting.open.get_mut(&number) else { return };
        let resting = |key: Key, seen| item(both, Step::Read(key), Query::Inspect, seen);
        let plain = |step: Step| item(both, step, Query::Lookup, None);
        let mut actions = Vec::new();
        let limit_us = open.limit_us;
        let request = match &open.deed {
            Deed::Commit(steps) => {
                actions.extend(steps.iter().filter_map(|step| intended(*step)));
                Request::transaction(steps.iter().map(|step| plain(*step)).collect(), limit_us).ok()
            }
            Deed::ReadMany(keys) => {
                let items = keys.iter().map(|key| plain(Step::Read(*key))).collect();
                Request::read_many(items, limit_us).ok()
            }
            Deed::Single(step) => {
                actions.extend(intended(*step));
                single(both, *step, limit_us)
            }
            Deed::ReadFirst { reads, together: true, .. } if open.got.len() < reads.len() => {
                let items = reads.iter().map(|key| plain(Step::Read(*key))).collect();
                Request::read_many(items, limit_us).ok()
            }
            Deed::ReadFirst { reads, .. } if open.got.len() < reads.len() => {
                single(both, Step::Read(reads[open.got.len()]), limit_us)
            }
            Deed::ReadFirst { writes, .. } => {
                open.is_committing = true;
                let mut left: BTreeMap<Key, Timestamp> =
                    open.got.iter().map(|(key, got)| (*key, got.version())).collect();
                let mut items = Vec::new();
                for step in writes {
                    // What is read and written is checked where it is written first.
                    let mut item = plain(*step);
                    if let Some(version) = left.remove(&step.key()) {
                        item.rest_on(version);
                    }
                    items.push(item);
                }
                items.extend(left.into_iter().map(|(key, version)| resting(key, Some(version))));
                actions.extend(writes.iter().filter_map(|step| intended(*step)));
                Request::transaction(items, limit_us).ok()
            }
        };
        let client = open.client;
        open.at = self.history.transactions.len();
        let deadline = now.after_us(limit_us);
        self.history.transactions.push(Transacted::begun(client, now, deadline, actions));
        let Some(request) = request else {
            self.transacting.open.remove(&number);
            return self.trouble("world", format!("deed #{number} cannot be sent"));
        };
        self.clients[client].session.submit(now, request, number);
        let soon = self.streams.schedule.below(20);
        self.wake_client(client, now.after_us(soon));
    }

    /// A deed goes on after a rest, if its client does.
    pub(super) fn deed(&mut self, client: usize, number: usize) {
        let paused_until = self.clients[client].paused_until;
        if self.now() < paused_until {
            return self.agenda.at(paused_until, Event::Deed { client, number });
        }
        self.go_on(number);
    }

    /// An operation of a deed has ended.
    pub(super) fn deed_ends(&mut self, number: usize, result: Result<Reply, Error>) {
        let now = self.now();
        let Some(open) = self.transacting.open.get_mut(&number) else { return };
        let (client, at) = (open.client, open.at);
        let entry = &mut self.history.transactions[at];
        entry.transaction.end = Some(now.0);
        let goes_on = match result {
            Ok(reply) => open.is_told(entry, &reply),
            Err(Error::Answer { failure: Failure::NotFound }) => {
                open.is_told(entry, &Reply::Many(vec![Err(Failure::NotFound)]))
            }
            Err(error) => {
                fail(entry, &error, open.is_haunted);
                false
            }
        };
        self.coverage.operations += u64::from(entry.transaction.fate == Fate::Committed);
        let text = format_args!("deed #{number} ends as {entry}");
        self.trace.say(now, text);
        if goes_on {
            let rest_us = self.transacting.draws.random().below(30 * MS);
            return self.agenda.at(now.after_us(rest_us), Event::Deed { client, number });
        }
        let (is_opening, is_rival) = (open.is_opening, open.is_rival);
        if is_opening {
            let is_there = entry.transaction.fate == Fate::Committed
                || matches!(&entry.trouble, Some(Trouble::Conflict(_)));
            self.transacting.opened = if is_there { Opened::Yes } else { Opened::No };
        }
        self.transacting.open.remove(&number);
        if !is_rival {
            let life = self.clients[client].life;
            self.call_again(client, life);
        }
    }

    /// A client dies, and what it has done may be done or not.
    pub(super) fn forget_deeds(&mut self, client: usize) {
        let transacting = &mut self.transacting;
        let own = transacting.open.iter().filter(|(_, open)| open.client == client);
        let own: Vec<usize> = own.map(|(number, _)| *number).collect();
        for open in own.into_iter().filter_map(|number| transacting.open.remove(&number)) {
            let entry = &mut self.history.transactions[open.at];
            entry.is_left |= entry.transaction.end.is_none();
            if open.is_opening {
                transacting.opened = Opened::No;
            }
        }
    }

    /// Takes in how a client's reads of several records have gone, before it is gone.
    pub(super) fn count_reads(&mut self, client: usize) {
        let ReadCounts { held, looked: _, confirmed, read_again, transacted } =
            self.clients[client].session.reads();
        self.coverage.commits_seen("reads held", held);
        self.coverage.commits_seen("reads confirmed", confirmed);
        self.coverage.commits_seen("reads read again", read_again);
        self.coverage.commits_seen("reads turned into transactions", transacted);
    }

    /// A client does nothing until then, and notices no deadline.
    pub(super) fn pause_deeds(&mut self, client: usize, until: Time) {
        for open in self.transacting.open.values().filter(|open| open.client == client) {
            let entry = &mut self.history.transactions[open.at];
            entry.deadline = entry.deadline.max(until);
        }
    }
}

impl Open {
    /// Takes an answer in. Whether there is more to do.
    fn is_told(&mut self, entry: &mut Transacted, reply: &Reply) -> bool {
        let mut told = Telling { entry, bank: (0, 0) };
        let one = |reply: &Reply| [Ok(reply.clone())];
        match (&self.deed, reply) {
            (Deed::Commit(steps), Reply::Transacted { version, answers }) => {
                told.transacted(*version, steps, answers);
            }
            (Deed::ReadMany(keys), Reply::Many(answers)) => {
                told.committed();
                told.reads(keys.iter().copied(), answers);
            }
            (Deed::Single(step), _) => {
                told.committed();
                match (step.is_read(), reply) {
                    (true, Reply::Many(answers)) => drop(told.reads([step.key()], answers)),
                    (true, reply) => drop(told.reads([step.key()], &one(reply))),
                    (false, Reply::Done { version, .. }) => told.version(*version),
                    (false, other) => told.strange(other),
                }
            }
            (Deed::ReadFirst { writes, .. }, Reply::Transacted { version, .. }) if self.is_committing => {
                told.committed();
                told.rested(&self.got);
                if !writes.is_empty() {
                    told.version(*version);
                }
            }
            (Deed::ReadFirst { reads, together, .. }, reply) if !self.is_committing => {
                told.committed();
                let now: Vec<Key> =
                    if *together { reads.clone() } else { reads[self.got.len()..][..1].to_vec() };
                let got = match reply {
                    Reply::Many(answers) => told.reads(now, answers),
                    reply => told.reads(now, &one(reply)),
                };
                self.got.extend(got);
                return self.entry_is_well(entry);
            }
            (_, other) => told.strange(other),
        }
        false
    }

    fn entry_is_well(&self, entry: &Transacted) -> bool {
        entry.trouble.is_none()
    }
}

/// Writes an answer into the history.
struct Telling<'e> {
    entry: &'e mut Transacted,
    /// Accounts that were read, and what they hold.
    bank: (usize, i64),
}

impl Telling<'_> {
    fn committed(&mut self) {
        self.entry.transaction.fate = Fate::Committed;
    }

    fn strange(&mut self, what: &dyn std::fmt::Debug) {
        let mut text = format!("{what:?}");
        text.truncate(300);
        self.entry.trouble = Some(Trouble::Strange(text));
    }

    /// What it has written has this version.
    fn version(&mut self, made: Timestamp) {
        self.entry.version = Some(made);
        for action in &mut self.entry.transaction.actions {
            if let Action::Write { version, .. } = action {
                *version = Some(made.0);
            }
        }
    }

    fn transacted(
        &mut self,
        version: Timestamp,
        steps: &[Step],
        answers: &[Result<Reply, Failure<'static>>],
    ) {
        self.committed();
        self.entry.transaction.actions.clear();
        for (step, answer) in steps.iter().zip(answers) {
            match intended(*step) {
                Some(action) => self.entry.transaction.actions.push(action),
                None if step.is_read() => drop(self.reads([step.key()], std::slice::from_ref(answer))),
                None => {}
            }
            if let Err(failure) = answer
                && !(step.is_read() && *failure == Failure::NotFound)
            {
                self.strange(&(step, failure));
            }
        }
        self.version(version);
    }

    /// It has rested on these.
    fn rested(&mut self, got: &[(Key, Got)]) {
        let reads: Vec<Action> = got.iter().filter_map(|(key, got)| read_of(*key, got)).collect();
        self.entry.transaction.actions.splice(0..0, reads);
    }

    fn reads(
        &mut self,
        keys: impl IntoIterator<Item = Key>,
        answers: &[Result<Reply, Failure<'static>>],
    ) -> Vec<(Key, Got)> {
        let mut all = Vec::new();
        for (key, answer) in keys.into_iter().zip(answers) {
            let Some(got) = got(key, answer) else {
                self.strange(&(key, answer));
                continue;
            };
            self.entry.transaction.actions.extend(read_of(key, &got));
            match &got {
                Got::List(version, values) => {
                    self.entry.lists.extend(values.last().map(|last| (key.id(), *last, *version)));
                }
                Got::Number(_, number) => {
                    self.bank = (self.bank.0 + 1, self.bank.1 + number);
                    if self.bank.0 == Key::all(key.class).len() {
                        self.entry.sum = Some(self.bank.1);
                    }
                }
                _ => {}
            }
            all.push((key, got));
        }
        all
    }
}

/// What a write is to the checker, before its version is known.
fn intended(step: Step) -> Option<Action> {
    match step {
        Step::Append(key, value) => Some(Action::Append { key: key.id(), value }),
        Step::Put { key, value, .. } => Some(Action::Write { key: key.id(), value, version: None }),
        Step::Make { key, value } if key.class == Class::Register => {
            Some(Action::Write { key: key.id(), value, version: None })
        }
        _ => None,
    }
}

/// What a read is to the checker. A register that is not there is one that nobody has written.
pub(super) fn read_of(key: Key, got: &Got) -> Option<Action> {
    let key_id = key.id();
    match (key.class, got) {
        (Class::List, Got::List(_, values)) => Some(Action::Read { key: key_id, values: values.clone() }),
        (Class::List, _) => Some(Action::Read { key: key_id, values: Vec::new() }),
        (Class::Register, Got::Value(version, value)) => {
            Some(Action::Look { key: key_id, value: *value, version: version.0 })
        }
        (Class::Register, _) => Some(Action::Look { key: key_id, value: 0, version: 0 }),
        _ => None,
    }
}

/// What an answer says of a key; `None`: it is nothing that can be there.
pub(super) fn got(key: Key, answer: &Result<Reply, Failure<'static>>) -> Option<Got> {
    match (key.class, answer) {
        (_, Err(Failure::NotFound)) => Some(Got::Absent),
        (Class::List, Ok(Reply::List { version, length, values, .. })) => {
            let numbers: Option<Vec<u64>> = values.iter().map(|value| number_of(value)).collect();
            Some(Got::List(*version, numbers.filter(|values| values.len() as u64 == *length)?))
        }
        (Class::Register, Ok(Reply::Value { version, bytes, .. })) => {
            let (first, rest) = bytes.split_at_checked(token(0).len())?;
            let is_whole = rest.iter().all(|byte| *byte == FILLER);
            Some(Got::Value(*version, number_of(first).filter(|_| is_whole)?))
        }
        (Class::Account, Ok(Reply::Value { version, bytes, .. })) => {
            let number = std::str::from_utf8(bytes).ok()?.parse().ok()?;
            Some(Got::Number(*version, number))
        }
        (Class::Cell, Ok(Reply::Value { version, bytes, .. })) => {
            let number = i64::from_le_bytes(bytes.as_ref().try_into().ok()?);
            Some(Got::Number(*version, number))
        }
        _ => None,
    }
}

/// How an operation has ended that was not done, or of which that is not known.
pub(super) fn fail(entry: &mut Transacted, error: &Error, is_haunted: bool) {
    let is_logged = matches!(error, Error::Aborted { reason, .. }
        if !matches!(reason, AbortReason::Misplaced | AbortReason::Overloaded | AbortReason::Malformed));
    entry.transaction.fate = match error {
        Error::Unknown { .. } => Fate::Unknown,
        // A copy of it may be taken up yet; what was aborted by its log is not begun again.
        _ if is_haunted && !is_logged => Fate::Unknown,
        _ => Fate::Aborted,
    };
    let text = error.to_string();
    entry.trouble = Some(match error {
        Error::Aborted { reason: AbortReason::ReadChanged | AbortReason::ConditionFailed, .. } => {
            Trouble::Conflict(text)
        }
        Error::Answer {
            failure:
                Failure::NotFound
                | Failure::StaleBlob { .. }
                | Failure::NeedHeader
                | Failure::ConditionFailed { .. }
                | Failure::SnapshotExpired,
        } => Trouble::Conflict(text),
        _ => Trouble::Other(text),
    });
}

fn single(both: [KeyspaceId; 2], step: Step, limit_us: u64) -> Option<Request> {
    let keyspace = both[step.key().keyspace];
    with_operation(step, Query::Lookup, |operation| Request::record(keyspace, operation, limit_us).ok())
}

fn item(both: [KeyspaceId; 2], step: Step, query: Query<'_>, seen: Option<Timestamp>) -> Item {
    let keyspace = both[step.key().keyspace];
    with_operation(step, query, |operation| Item::new(keyspace, operation, seen).expect("is within bounds"))
}

fn with_operation<R>(step: Step, query: Query<'_>, then: impl FnOnce(&Operation<'_>) -> R) -> R {
    let key = &step.key().bytes()[..];
    let write = |condition, change| Operation::Write(Write { key, condition, change });
    let insert = |value| Change::Insert { value, expiry: Expiry::Never };
    match step {
        Step::Read(_) => then(&Operation::Read(Read { key, query })),
        Step::Append(_, value) => {
            let value = token(value);
            let values = [&value[..]];
            then(&write(Condition::Always, Change::Append { values: Many::given(&values) }))
        }
        Step::Put { value, filler, .. } => {
            let mut bytes = token(value);
            bytes.resize(bytes.len() + filler, FILLER);
            then(&write(Condition::Always, insert(&bytes)))
        }
        Step::Make { key, value } => {
            let bytes = match key.class {
                Class::Account => b"0".to_vec(),
                Class::Cell => vec![0; 8],
                _ => token(value),
            };
            then(&write(Condition::IfAbsent, insert(&bytes)))
        }
        Step::Add(key, delta) if key.class == Class::Cell => {
            let transform = Transform {
                operator: Operator::Add,
                number: NumberType::I64,
                operand: delta as u64,
                offset: 0,
                brings: Brings::Nothing,
            };
            then(&write(Condition::Always, Change::Transform(transform)))
        }
        Step::Add(_, delta) => then(&write(Condition::Always, Change::Increment { delta })),
    }
}
