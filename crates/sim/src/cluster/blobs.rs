//! The clients' part in blobs: the same items and transactions as `zerohop-client` makes of them, each tried once.
//!
//! ```text
//!   header, unless it is recalled ──> write, replacement, append, cut, removal, all of it made, or removed and made anew:
//!        │                       │    one transaction of header and chunks
//!        │                       ├──> one chunk alone, under the generation that was seen
//!        │                       ├──> filling: header ──> chunks behind the end ──> header: published
//!        │                       └──> chunks ──> confirmed ──> header again: a read of one moment
//!        │                                          ├─ else by one transaction
//!        │                                          └──> one transaction that rests on all that was read
//!        └── who is to write and finds a filling, or a cut that is not finished, cuts it off first
//! ```
//!
//! For the checker of transactions a blob's header and each of its chunks are registers, and its tail is a list
//! (`workload/blobs.rs`).

use std::collections::BTreeMap;

use bytes::Bytes;
use zerohop_session::{Error, Reply, Request, Time};
use zerohop_wire::Failure;
use zerohop_wire::blob::BlobStamp;
use zerohop_wire::ids::{KeyspaceId, Timestamp};

use super::Cluster;
use super::transacting::fail;
use crate::check::cycles::{Action, Fate};
use crate::transacted::{Life, Transacted, Trouble};
use crate::workload::blobs::{
    BASE_BYTES, BASE_CHUNKS, CHUNK_BITS, Contents, Deed, Kind, MARKED, MARKS_MAX, NUMBERS, RECORD_BYTES,
    RECORDS_MAX, chunk_id, filled, header_id, mark_id, tail_id,
};
use crate::workload::transactional::KEYSPACES;
use items::{Header, Made, header_of, looked_of, size_after};

#[path = "blobs/changes.rs"]
mod changes;
#[path = "blobs/filling.rs"]
mod filling;
#[path = "blobs/items.rs"]
pub(super) mod items;

/// Tokens of a session's operations from here on are those of blobs, each with so many of its own.
pub(super) const BLOBS_FROM: usize = 1 << 41;
const PARTS: usize = 16;

/// What all clients have under way.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    open: BTreeMap<usize, Open>,
    next: usize,
    /// Headers as clients have seen them last.
    known: BTreeMap<(usize, u64), Header>,
    /// How many marks of a chunk were given away, by edition.
    marks: BTreeMap<(u64, u64), u32>,
}

#[derive(Debug)]
struct Open {
    client: usize,
    deed: Deed,
    keyspace: KeyspaceId,
    limit_us: u64,
    stage: Stage,
    /// Its place in the history.
    at: usize,
    header: Option<Header>,
    /// Answers that are to come.
    waiting: usize,
    looked: Vec<Option<Looked>>,
    /// Something was not as it was before: it is read by a transaction.
    has_changed: bool,
    /// How often it has cut off for others what is behind the end.
    settled: u32,
    is_haunted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its header is asked for.
    Header,
    /// The one request that changes something.
    Change(Made),
    /// Chunks behind the end are written: so many records.
    Fills(u64),
    /// Chunks behind the end are cut.
    Cuts,
    /// All chunks are read,
    Looks,
    /// and confirmed,
    Confirms,
    /// and the header is looked at once more.
    Again,
    /// Header and chunks by one transaction.
    Together,
}

/// A chunk that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Looked {
    pub(super) version: Timestamp,
    pub(super) stamp: BlobStamp,
    pub(super) bytes: Bytes,
}

impl Blobs {
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Whatever this client is told of what it has under way, a copy may be taken up later.
    pub(super) fn haunt(&mut self, client: usize) {
        self.open.values_mut().filter(|open| open.client == client).for_each(|open| open.is_haunted = true);
    }
}

impl Cluster {
    /// A client begins something with a blob.
    pub(super) fn begin_blob(&mut self, client: usize, deed: Deed, limit_us: u64) {
        let Some((keyspace, _)) = self.watch.map.keyspace_named(KEYSPACES[0]) else { return };
        let blobs = &mut self.blobs;
        let number = blobs.next;
        blobs.next += 1;
        let header = blobs.known.get(&(client, deed.blob)).filter(|_| deed.recalls).cloned();
        let open = Open {
            client,
            deed,
            keyspace,
            limit_us,
            stage: Stage::Header,
            at: 0,
            header: None,
            waiting: 0,
            looked: Vec::new(),
            has_changed: false,
            settled: 0,
            is_haunted: false,
        };
        blobs.open.insert(number, open);
        self.trace.say(self.agenda.now(), format_args!("c{client} begins blob #{number}: {deed:?}"));
        match header {
            Some(header) => self.blob_goes_on(number, header),
            None => self.ask_of_blob(number, Stage::Header, Vec::new()),
        }
    }

    /// Sends the requests of a stage, as an entry of the history of their own or as part of the one before.
    fn ask_of_blob(&mut self, number: usize, stage: Stage, actions: Vec<Action>) {
        let now = self.now();
        let Some(open) = self.blobs.open.get_mut(&number) else { return };
        let deadline = now.after_us(open.limit_us);
        let (client, header) = (open.client, open.header.as_ref());
        let blob = (open.keyspace, open.deed.blob);
        let requests: Vec<Request> = match (stage, header) {
            (Stage::Header | Stage::Again, _) => vec![items::look_at_header(blob, open.limit_us)],
            (Stage::Change(made), header) => {
                let seen =
                    if matches!(made, Made::Rewrite | Made::PartCut(_)) { open.versions() } else { vec![] };
                vec![items::change(blob, header, (made, open.deed, &seen), open.limit_us)]
            }
            (Stage::Fills(records), Some(header)) => {
                items::fills(blob, header, &filled(open.deed.records(records)), open.limit_us)
            }
            (Stage::Cuts, Some(header)) => items::cuts(blob, header, open.limit_us),
            // As whoever reads what is short, or as whoever streams what is long.
            (Stage::Looks, Some(header)) if !number.is_multiple_of(3) => {
                vec![items::look_at(blob, header, open.limit_us)]
            }
            (Stage::Looks, Some(header)) => items::looks(blob, header, open.limit_us),
            (Stage::Confirms, Some(_)) => items::confirms(blob, open.versions().into_iter(), open.limit_us),
            (Stage::Together, Some(header)) => vec![items::read_together(blob, header, open.limit_us)],
            (_, None) => Vec::new(),
        };
        if matches!(stage, Stage::Confirms | Stage::Again) {
            let entry = &mut self.history.transactions[open.at];
            entry.deadline = entry.deadline.max(deadline);
        } else {
            open.at = self.history.transactions.len();
            self.history.transactions.push(Transacted::begun(client, now, deadline, actions));
        }
        if let (Stage::Change(Made::Deletion | Made::Renewal), Some(header)) = (stage, header) {
            self.history.transactions[open.at].lives.push((open.deed.blob, Life::Ended(header.stamp.id)));
        }
        (open.stage, open.waiting) = (stage, requests.len());
        if stage == Stage::Looks {
            open.looked = vec![None; header.map_or(0, |header| header.chunks() as usize)];
        }
        debug_assert!((1..=PARTS).contains(&requests.len()), "there is something to ask for");
        for (part, request) in requests.into_iter().enumerate() {
            self.clients[client].session.submit(now, request, BLOBS_FROM + number * PARTS + part);
        }
        let soon = self.streams.schedule.below(20);
        self.wake_client(client, now.after_us(soon));
    }

    /// The header is known, or what it was is.
    fn blob_goes_on(&mut self, number: usize, header: Header) {
        let Blobs { open, marks, .. } = &mut self.blobs;
        let Some(open) = open.get_mut(&number) else { return };
        let Deed { blob, value, kind, .. } = open.deed;
        let (size, edition) = (header.size, header.edition);
        if header.uncut > 0 && !matches!(kind, Kind::Read { .. } | Kind::Delete) {
            return self.settle_blob(number, header);
        }
        let records = size.saturating_sub(BASE_BYTES) / RECORD_BYTES;
        let made = match kind {
            Kind::Read { .. } | Kind::Rest { .. } => {
                let together = matches!(kind, Kind::Read { together: true }) || size == 0;
                open.header = Some(header);
                let stage = if together { Stage::Together } else { Stage::Looks };
                return self.ask_of_blob(number, stage, Vec::new());
            }
            Kind::Delete => Made::Deletion,
            Kind::Make => Made::Renewal,
            Kind::Write => Made::Write,
            _ if size == 0 => Made::Write,
            Kind::Replace => Made::Replacement,
            Kind::Poke { chunk } => Made::Poke(chunk),
            Kind::Share { amount, is_float } => Made::Share { amount, is_float },
            Kind::Mark { chunk } => {
                let chunks = chunk.map_or(NUMBERS, |chunk| chunk..chunk + 1);
                let used = |chunk| marks.get(&(edition, chunk)).copied().unwrap_or(0);
                let mark = chunks.clone().map(used).max().unwrap_or(0);
                if mark < MARKS_MAX {
                    marks.extend(chunks.map(|chunk| ((edition, chunk), mark + 1)));
                    Made::Mark(chunk, mark)
                } else {
                    Made::Write
                }
            }
            Kind::Fill { records: more } if records + more <= RECORDS_MAX => Made::Filling(more),
            Kind::Append | Kind::Cut | Kind::Fill { .. } => match records {
                0 => Made::Append,
                records if kind == Kind::Append && records < RECORDS_MAX => Made::Append,
                _ => Made::Cut,
            },
        };
        let register = |key| Action::Write { key, value, version: None };
        let changed = register(header_id(blob));
        let all = |edition| (0..BASE_CHUNKS).map(move |chunk| register(chunk_id(edition, chunk)));
        let marked = |chunk, mark| Action::Append { key: mark_id(edition, chunk, mark), value: MARKED };
        let actions = match made {
            Made::Write => all(edition).collect(),
            Made::Replacement => std::iter::once(changed).chain(all(value)).collect(),
            Made::Deletion => vec![header.seen(blob)],
            Made::Renewal => [header.seen(blob), changed].into_iter().chain(all(value)).collect(),
            Made::Poke(chunk) => vec![register(chunk_id(edition, chunk))],
            Made::Append => vec![Action::Append { key: tail_id(header.change), value }],
            Made::Cut => vec![changed],
            Made::Mark(Some(chunk), mark) => vec![marked(chunk, mark)],
            Made::Mark(None, mark) => NUMBERS.map(|chunk| marked(chunk, mark)).collect(),
            _ => Vec::new(),
        };
        open.header = Some(header);
        self.ask_of_blob(number, Stage::Change(made), actions);
    }

    /// One answer of something done with a blob.
    pub(super) fn blob_is_told(&mut self, token: usize, result: Result<Reply, Error>) {
        let now = self.now();
        let (number, part) = ((token - BLOBS_FROM) / PARTS, (token - BLOBS_FROM) % PARTS);
        let Some(open) = self.blobs.open.get_mut(&number) else { return };
        let (client, deed, at, stage) = (open.client, open.deed, open.at, open.stage);
        open.waiting = open.waiting.saturating_sub(1);
        let entry = &mut self.history.transactions[at];
        let blob = deed.blob;
        if open.waiting == 0 || result.is_err() {
            entry.transaction.end = Some(now.0);
        }
        // What is to be done next.
        let mut then = Then::End;
        match (stage, result) {
            (Stage::Header | Stage::Again, Ok(reply)) => match header_of(&reply) {
                Some(header) if stage == Stage::Header => {
                    entry.transaction.fate = Fate::Committed;
                    entry.lives.push((blob, Life::Seen(header.stamp.id)));
                    let (key, value, version) = (header_id(blob), header.change, header.order());
                    entry.transaction.actions.push(Action::Look { key, value, version });
                    then = Then::GoOn(header);
                }
                Some(header) => match &open.header {
                    Some(was) if was.stamp == header.stamp && was.size == header.size => {
                        then = Then::Read(header)
                    }
                    _ => then = Then::ReadTogether(header),
                },
                None => entry.trouble = Some(Trouble::Strange(format!("no header: {reply:?}"))),
            },
            (Stage::Header, Err(Error::Answer { failure: Failure::NotFound })) => {
                entry.transaction.fate = Fate::Committed;
                entry.lives.push((blob, Life::Absent));
                then = match deed.kind {
                    Kind::Read { .. } | Kind::Delete => Then::End,
                    Kind::Make | Kind::Write | Kind::Replace => Then::Create(Made::Making),
                    _ => Then::Create(Made::Creation),
                };
            }
            (Stage::Looks, Ok(_) | Err(Error::Answer { failure: Failure::NotFound })) if open.has_changed => {
                then = if open.waiting == 0 { Then::Forget } else { Then::Wait };
            }
            (Stage::Looks, Ok(Reply::Looked { answers, is_one_moment })) => {
                open.looked = answers.into_iter().map(|one| one.ok().as_ref().and_then(looked_of)).collect();
                let stamp = open.header.as_ref().map(|header| header.stamp);
                let is_later = |looked: &Looked| stamp.is_none_or(|stamp| looked.stamp > stamp);
                open.has_changed = open.looked.iter().flatten().any(is_later);
                if is_one_moment {
                    self.coverage.blob("blobs: reads held");
                }
                then = match (open.has_changed, is_one_moment) {
                    (true, _) => Then::Forget,
                    (false, true) => Then::LookAgain,
                    (false, false) => Then::Confirm,
                };
            }
            (Stage::Looks, Ok(reply)) => {
                let looked = looked_of(&reply);
                open.has_changed |= open
                    .header
                    .as_ref()
                    .zip(looked.as_ref())
                    .is_none_or(|(header, looked)| looked.stamp > header.stamp);
                open.looked[part] = looked;
                then = match (open.waiting, open.has_changed) {
                    (0, true) => Then::Forget,
                    (0, false) => Then::Confirm,
                    _ => Then::Wait,
                };
            }
            (Stage::Looks, Err(Error::Answer { failure: Failure::NotFound })) => {
                then = if open.waiting == 0 { Then::Confirm } else { Then::Wait };
            }
            (Stage::Confirms, Ok(reply)) => {
                open.has_changed |= !matches!(reply, Reply::Done { number: 1, .. });
                then = match (open.waiting, open.has_changed) {
                    (0, true) => Then::ReadAgain,
                    (0, false) => Then::LookAgain,
                    _ => Then::Wait,
                };
            }
            (Stage::Together, Ok(Reply::Transacted { answers, .. })) => {
                let mut answers = answers.into_iter();
                let header = match answers.next() {
                    Some(Ok(reply)) => header_of(&reply),
                    Some(Err(Failure::NotFound)) => {
                        entry.transaction.fate = Fate::Committed;
                        entry.lives.push((blob, Life::Absent));
                        None
                    }
                    other => {
                        entry.trouble = Some(Trouble::Strange(format!("no header: {other:?}")));
                        None
                    }
                };
                open.looked = answers.map(|one| one.ok().as_ref().and_then(looked_of)).collect();
                let is_same = |header: &Header| {
                    open.header
                        .as_ref()
                        .is_some_and(|was| was.stamp == header.stamp && was.size == header.size)
                };
                then = match header {
                    Some(header) if is_same(&header) => Then::Read(header),
                    _ => Then::Forget,
                };
            }
            (Stage::Change(made), Ok(reply)) => {
                let is_done = open.blob_changed(entry, made, &reply);
                if is_done {
                    self.coverage.blob(made.name());
                }
                then = match made {
                    Made::Filling(records) if is_done => Then::Fill(records),
                    Made::FillingCut | Made::Settling => Then::Anew,
                    _ => Then::Forget,
                };
            }
            // Somebody else has cut off what is behind the end.
            (Stage::Change(Made::FillingCut | Made::Settling), Err(Error::Answer { failure }))
                if is_of_other(&failure) =>
            {
                entry.transaction.fate = Fate::Aborted;
                then = Then::Anew;
            }
            (Stage::Cuts, Ok(_) | Err(Error::Answer { failure: Failure::StaleBlob { .. } })) => {
                entry.transaction.fate = Fate::Committed;
                then = if open.waiting == 0 { Then::Settle } else { Then::Wait };
            }
            (Stage::Fills(records), Ok(_)) => {
                entry.transaction.fate = Fate::Committed;
                then = if open.waiting == 0 { Then::Publish(records) } else { Then::Wait };
            }
            (_, Err(error)) => {
                if matches!(error, Error::Answer { failure: Failure::StaleBlob { .. } }) {
                    self.coverage.blob("blobs: generations refused");
                }
                if matches!(stage, Stage::Change(Made::Rewrite | Made::PartCut(_)))
                    && matches!(error, Error::Aborted { .. })
                {
                    self.coverage.blob("blobs: writes of what has changed refused");
                }
                fail(entry, &error, open.is_haunted);
                then = Then::Forget;
            }
            (_, Ok(other)) => entry.trouble = Some(Trouble::Strange(format!("{other:?}"))),
        }
        if let Then::Wait = then {
            return;
        }
        if let Then::Read(header) = &then {
            match open.contents(header).actions() {
                Ok(actions) => {
                    entry.transaction.fate = Fate::Committed;
                    entry.transaction.actions = actions;
                    entry.lives.push((blob, Life::Seen(header.stamp.id)));
                    self.coverage.blob(if stage == Stage::Again {
                        "blobs: reads confirmed"
                    } else {
                        "blobs: reads in transactions"
                    });
                }
                Err(what) => entry.trouble = Some(Trouble::Strange(format!("blob {blob}: {what}"))),
            }
        }
        if matches!(then, Then::ReadTogether(_) | Then::ReadAgain) {
            self.coverage.blob("blobs: reads changed meanwhile");
        }
        self.coverage.operations += u64::from(entry.transaction.fate == Fate::Committed);
        if entry.transaction.end.is_some() {
            self.trace.say(now, format_args!("blob #{number} {stage:?} ends as {entry}"));
        }
        match then {
            Then::GoOn(header) | Then::ReadTogether(header) => {
                self.blobs.known.insert((client, blob), header.clone());
                if stage == Stage::Again {
                    return self.blob_reads_together(number, header);
                }
                return self.blob_goes_on(number, header);
            }
            Then::Create(made) => return self.create_blob(number, made),
            Then::Confirm => return self.ask_of_blob(number, Stage::Confirms, Vec::new()),
            Then::LookAgain => return self.ask_of_blob(number, Stage::Again, Vec::new()),
            Then::ReadAgain => {
                if let Some(header) = self.blobs.open.get(&number).and_then(|open| open.header.clone()) {
                    return self.blob_reads_together(number, header);
                }
            }
            Then::Read(header) if matches!(deed.kind, Kind::Rest { .. }) && header.size > 0 => {
                self.blobs.known.insert((client, blob), header.clone());
                return self.blob_rests(number, header);
            }
            Then::Read(header) => drop(self.blobs.known.insert((client, blob), header)),
            Then::Fill(records) => return self.ask_of_blob(number, Stage::Fills(records), Vec::new()),
            Then::Publish(records) => return self.publish_blob(number, records),
            Then::Settle => return self.ask_of_blob(number, Stage::Change(Made::Settling), Vec::new()),
            Then::Anew => {
                self.blobs.known.remove(&(client, blob));
                return self.ask_of_blob(number, Stage::Header, Vec::new());
            }
            // A writer that has been told nothing better keeps what it knew, now and then.
            Then::Forget if !matches!(stage, Stage::Change(_)) || self.streams.workload.chance(1, 2) => {
                self.blobs.known.remove(&(client, blob));
            }
            Then::Forget | Then::End | Then::Wait => {}
        }
        self.blobs.open.remove(&number);
        let life = self.clients[client].life;
        self.call_again(client, life);
    }

    fn blob_reads_together(&mut self, number: usize, header: Header) {
        if let Some(open) = self.blobs.open.get_mut(&number) {
            // What was begun as a read of another kind shows nothing.
            self.history.transactions[open.at].transaction.fate = Fate::Aborted;
            open.header = Some(header);
        }
        self.ask_of_blob(number, Stage::Together, Vec::new());
    }

    /// A client dies, and what it has done may be done or not.
    pub(super) fn forget_blobs(&mut self, client: usize) {
        let Blobs { open, known, .. } = &mut self.blobs;
        known.retain(|(owner, _), _| *owner != client);
        open.retain(|_, open| {
            if open.client == client {
                let entry = &mut self.history.transactions[open.at];
                entry.is_left |= entry.transaction.end.is_none();
            }
            open.client != client
        });
    }

    /// A client does nothing until then, and notices no deadline.
    pub(super) fn pause_blobs(&mut self, client: usize, until: Time) {
        for open in self.blobs.open.values().filter(|open| open.client == client) {
            let entry = &mut self.history.transactions[open.at];
            entry.deadline = entry.deadline.max(until);
        }
    }

    /// Every blob is read once more.
    pub(super) fn read_all_blobs(&mut self) {
        for deed in Deed::reads() {
            self.begin_blob(0, deed, 8_000_000);
        }
    }
}

/// What comes after an answer.
enum Then {
    Wait,
    End,
    /// The same, and what was known of the header may be old.
    Forget,
    GoOn(Header),
    /// By itself, or with all that is in it.
    Create(Made),
    Confirm,
    LookAgain,
    /// By a transaction.
    ReadAgain,
    ReadTogether(Header),
    Read(Header),
    /// So many records behind the end.
    Fill(u64),
    Publish(u64),
    Settle,
    /// From the header on.
    Anew,
}

impl Open {
    /// What was read.
    fn contents(&self, header: &Header) -> Contents<'_> {
        contents(self.deed.blob, header, &self.looked)
    }

    /// The versions of the chunks that were read; zero: there was none.
    fn versions(&self) -> Vec<Timestamp> {
        self.looked.iter().map(|one| one.as_ref().map_or(Timestamp::ZERO, |one| one.version)).collect()
    }
}

/// Whether a refusal says that the header is another by now.
fn is_of_other(failure: &Failure<'_>) -> bool {
    matches!(failure, Failure::StaleBlob { .. } | Failure::ConditionFailed { .. } | Failure::NotFound)
}

/// A blob as its header and its chunks tell. What is left of an earlier blob of the name is none of this one's.
pub(super) fn contents<'l>(blob: u64, header: &Header, looked: &'l [Option<Looked>]) -> Contents<'l> {
    let chunk = |one: &'l Option<Looked>| match one {
        Some(one) if one.stamp.id == header.stamp.id => (one.version.0, &one.bytes[..]),
        _ => (0, &[][..]),
    };
    let Header { edition, change, count, size, .. } = *header;
    let chunks = looked.iter().map(chunk).collect();
    Contents { blob, edition, change, order: header.order(), count, size, chunks }
}

const _: () =
    assert!((size_after(RECORDS_MAX) >> CHUNK_BITS) < PARTS as u64, "every chunk has a token of its own");
