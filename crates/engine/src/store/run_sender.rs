//! The sender of a snapshot install over a shared log: the entries of the present records are sent, and no others.
//!
//! ```text
//!   sender     segment 3: 5 6 9 │ segment 4: 7 12 │ ...          records of one entry, each segment in index order
//!              list a: 4 8 10   │ chunk b: 2 11   │ ...          records of several, each in index order
//!   receiver   an incoming log: any order of indexes; a section; then a creation that continues it through the end
//! ```
//!
//! Entries above the index as of which the install is are left out: the log's tail has them. An entry that such a one has made
//! dead meanwhile is left out too, because the tail says what became of its key. A record of one entry that becomes one of several
//! is sent twice at most, which changes nothing. While the install runs, compaction moves nothing of the partition.

use super::PartitionStore;
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::io::Io;
use crate::log::segment_run::{LogRun, RunPlace};
use crate::log::shared::format::{HEAD_BYTES, LogPlace};
use crate::log::shared::install_run::{InstallPlace, RunStage, RunWriter};
use crate::overflow::chains::Chain;
use crate::planted::{Bug, is_planted};

/// A call looks at so many entries at most.
const LOOKS_MAX: usize = 2_000;

/// A run that is being made.
struct RunSender<'r, D> {
    store: &'r PartitionStore,
    io: &'r mut Io<D>,
    writer: RunWriter<'r>,
    /// Behind what was sent.
    next: InstallPlace,
    /// Entries above it are left out.
    through: u64,
    /// About so many bytes are requested.
    bytes: usize,
    /// So many entries may still be looked at.
    looks: usize,
}

/// What a step of the sender has found.
enum SendStep {
    /// There may be more in this run.
    GoOn,
    /// The run is long enough.
    Enough,
    /// There is nothing more.
    End,
    /// The entry of this log index is corrupt.
    Corrupt(u64),
}

/// See [`crate::Engine::read_run`].
pub(crate) fn send_run<D: Disk>(
    store: &PartitionStore,
    io: &mut Io<D>,
    place: &mut RunPlace,
    (through, bytes): (u64, usize),
    out: &mut Vec<u8>,
) -> EngineResult<LogRun> {
    let moves = io.logs.shared().map_or(0, |shared| shared.moves_despite_holds());
    let begins = place.install == InstallPlace::default();
    if !begins && place.moves != moves {
        return Ok(LogRun::Replaced);
    }
    let writer = RunWriter::new(store.id.index_seed, place.install, out);
    let mut sender =
        RunSender { store, io, writer, next: place.install, through, bytes: bytes.max(1), looks: LOOKS_MAX };
    loop {
        let step = match sender.next.stage {
            RunStage::Entries => sender.send_entry()?,
            RunStage::Chains => sender.send_chain()?,
        };
        match step {
            SendStep::GoOn => {}
            SendStep::Corrupt(index) if sender.writer.bytes() == 0 => return Ok(LogRun::Corrupt { index }),
            SendStep::End if sender.next == place.install => return Ok(LogRun::End),
            SendStep::Enough | SendStep::Corrupt(_) | SendStep::End => break,
        }
    }
    let RunSender { writer, next, .. } = sender;
    writer.end(next);
    (place.install, place.moves) = (next, moves);
    Ok(LogRun::Bytes { begins })
}

impl<D: Disk> RunSender<'_, D> {
    /// Sends the next entry that a record of one entry has.
    fn send_entry(&mut self) -> EngineResult<SendStep> {
        let Io { disk, logs, .. } = &mut *self.io;
        let Some(shared) = logs.shared_mut() else { return Ok(SendStep::End) };
        let Some(number) = shared.segment_from(self.next.at) else {
            self.next = InstallPlace { stage: RunStage::Chains, at: 0, after: 0 };
            return Ok(SendStep::GoOn);
        };
        if number != self.next.at {
            self.next = InstallPlace { at: number, after: 0, ..self.next };
        }
        let range = (self.next.after, self.through);
        let Some((index, place)) = shared.next_in_segment(disk, self.store.handle, number, range)? else {
            self.next = InstallPlace { at: number + 1, after: 0, ..self.next };
            return Ok(SendStep::GoOn);
        };
        if self.looks == 0 || self.writer.bytes() >= self.bytes {
            return Ok(SendStep::Enough);
        }
        self.looks -= 1;
        let mut scratch = Vec::new();
        let Some((placed, head)) = shared.read_key_of(disk, place, &mut scratch)? else {
            return Ok(SendStep::Corrupt(index));
        };
        let fragment = self.store.fragment(&scratch[HEAD_BYTES..head.payload_at()]);
        let here = PartitionStore::location_of(placed);
        if self.store.index.hash.find_slot(fragment, here).is_none() {
            self.next.after = index;
            return Ok(SendStep::GoOn);
        }
        self.send(index, place)
    }

    /// Sends the next entry that a record of several entries has.
    fn send_chain(&mut self) -> EngineResult<SendStep> {
        let store = self.store;
        let Some((id, chain)) = store.chains.first_from(self.next.at) else { return Ok(SendStep::End) };
        if u64::from(id) != self.next.at {
            self.next = InstallPlace { at: id.into(), after: 0, ..self.next };
        }
        let index = entry_after(chain, self.next.after).filter(|index| *index <= self.through);
        let Some(index) = index else {
            self.next = InstallPlace { at: u64::from(id) + 1, after: 0, ..self.next };
            return Ok(SendStep::GoOn);
        };
        if self.looks == 0 || self.writer.bytes() >= self.bytes {
            return Ok(SendStep::Enough);
        }
        self.looks -= 1;
        let placed = match chain.trim_at.filter(|_| chain.trimmed_by == index) {
            Some(placed) => Some(placed),
            None => match store.locate(self.io, index) {
                Ok(found) => found.map(|(placed, _)| placed),
                Err(EngineError::Corrupt { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        let shared = self.io.logs.shared();
        match placed.zip(shared).map(|(placed, shared)| shared.place_of(&placed)) {
            Some(place) => self.send(index, place),
            None => Ok(SendStep::Corrupt(index)),
        }
    }

    fn send(&mut self, index: u64, place: LogPlace) -> EngineResult<SendStep> {
        let Io { disk, logs, .. } = &mut *self.io;
        let Some(shared) = logs.shared() else { return Ok(SendStep::End) };
        let mut bytes = Vec::new();
        let head = match shared.log.read(disk, place, &mut bytes) {
            Ok(head) => head,
            Err(EngineError::Corrupt { .. }) => return Ok(SendStep::Corrupt(index)),
            Err(error) => return Err(error),
        };
        let (key, payload) = bytes[HEAD_BYTES..head.entry_bytes()].split_at(head.key_bytes);
        if !self.writer.push(&head, key, payload) {
            return Ok(SendStep::Enough);
        }
        self.next.after = index;
        Ok(SendStep::GoOn)
    }
}

/// The log index of the first entry of a record behind an index: of a part, or of the trim that shapes it.
fn entry_after(chain: &Chain, after: u64) -> Option<u64> {
    let part = chain.parts.get(chain.parts.partition_point(|part| part.index <= after));
    let part = part.map(|part| part.index);
    let is_next = |trim: &u64| *trim > after && !is_planted(Bug::TrimNotSent);
    let trim = Some(chain.trimmed_by).filter(is_next);
    part.into_iter().chain(trim).min()
}
