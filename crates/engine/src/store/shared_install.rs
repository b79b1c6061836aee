//! Snapshot install over a shared log: the entries of the present records are sent, and no others.
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

use super::snapshot_install::{InstallState, InstalledRun};
use super::{PartitionStore, units_of};
use crate::disk::Disk;
use crate::error::{EngineError, EngineResult};
use crate::io::Io;
use crate::log::segment_run::{LogRun, RunPlace};
use crate::log::shared::format::{HEAD_BYTES, LogPlace};
use crate::log::shared::install_run::{InstallPlace, RunHeader, RunStage, RunWriter, entries_of};
use crate::overflow::chains::Chain;
use crate::planted::{Bug, is_planted};

/// A call looks at so many entries at most.
const LOOKS_MAX: usize = 2_000;

/// How far a call goes.
struct RunLimits {
    /// Entries above it are left out.
    through: u64,
    bytes: usize,
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

impl PartitionStore {
    /// See [`crate::Engine::read_run`].
    pub(crate) fn read_shared_run<D: Disk>(
        &self,
        io: &mut Io<D>,
        place: &mut RunPlace,
        (through, bytes): (u64, usize),
        out: &mut Vec<u8>,
    ) -> EngineResult<LogRun> {
        let failed_files = io.logs.shared().map_or(0, |shared| shared.failed_files());
        let begins = place.install == InstallPlace::default();
        if !begins && place.failed_files != failed_files {
            return Ok(LogRun::Replaced);
        }
        let mut limits = RunLimits { through, bytes: bytes.max(1), looks: LOOKS_MAX };
        let (mut next, mut writer) = (place.install, RunWriter::new(self.id.index_seed, place.install, out));
        loop {
            let step = match next.stage {
                RunStage::Entries => self.send_entry(io, &mut writer, &mut next, &mut limits)?,
                RunStage::Chains => self.send_chain(io, &mut writer, &mut next, &mut limits)?,
            };
            match step {
                SendStep::GoOn => {}
                SendStep::Corrupt(index) if writer.bytes() == 0 => return Ok(LogRun::Corrupt { index }),
                SendStep::End if next == place.install => return Ok(LogRun::End),
                SendStep::Enough | SendStep::Corrupt(_) | SendStep::End => break,
            }
        }
        writer.end(next);
        (place.install, place.failed_files) = (next, failed_files);
        Ok(LogRun::Bytes { begins })
    }

    /// Sends the next entry that a record of one entry has.
    fn send_entry<D: Disk>(
        &self,
        io: &mut Io<D>,
        writer: &mut RunWriter<'_>,
        next: &mut InstallPlace,
        limits: &mut RunLimits,
    ) -> EngineResult<SendStep> {
        let Io { disk, logs, .. } = io;
        let chains = InstallPlace { stage: RunStage::Chains, at: 0, after: 0 };
        let Some(shared) = logs.shared_mut() else { return Ok(SendStep::End) };
        let Some(number) = shared.segment_from(next.at) else {
            *next = chains;
            return Ok(SendStep::GoOn);
        };
        if number != next.at {
            *next = InstallPlace { at: number, after: 0, ..*next };
        }
        let found = shared.next_in_segment(disk, self.handle, number, (next.after, limits.through))?;
        let Some((index, place)) = found else {
            *next = InstallPlace { at: number + 1, after: 0, ..*next };
            return Ok(SendStep::GoOn);
        };
        if limits.looks == 0 || writer.bytes() >= limits.bytes {
            return Ok(SendStep::Enough);
        }
        limits.looks -= 1;
        let mut scratch = Vec::new();
        let Some((placed, head)) = shared.read_key_of(disk, place, &mut scratch)? else {
            return Ok(SendStep::Corrupt(index));
        };
        let fragment = self.fragment(&scratch[HEAD_BYTES..head.payload_at()]);
        let here = PartitionStore::location_of(placed);
        if self.index.hash.find_slot(fragment, here).is_none() {
            next.after = index;
            return Ok(SendStep::GoOn);
        }
        self.send(io, writer, (index, place), next)
    }

    /// Sends the next entry that a record of several entries has.
    fn send_chain<D: Disk>(
        &self,
        io: &mut Io<D>,
        writer: &mut RunWriter<'_>,
        next: &mut InstallPlace,
        limits: &mut RunLimits,
    ) -> EngineResult<SendStep> {
        let Some((id, chain)) = self.chains.first_from(next.at) else { return Ok(SendStep::End) };
        if u64::from(id) != next.at {
            *next = InstallPlace { at: id.into(), after: 0, ..*next };
        }
        let Some(index) = entry_after(chain, next.after).filter(|index| *index <= limits.through) else {
            *next = InstallPlace { at: u64::from(id) + 1, after: 0, ..*next };
            return Ok(SendStep::GoOn);
        };
        if limits.looks == 0 || writer.bytes() >= limits.bytes {
            return Ok(SendStep::Enough);
        }
        limits.looks -= 1;
        let placed = match chain.trim_at.filter(|_| chain.trimmed_by == index) {
            Some(placed) => Some(placed),
            None => match self.locate(io, index) {
                Ok(found) => found.map(|(placed, _)| placed),
                Err(EngineError::Corrupt { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        let place = placed.and_then(|placed| io.logs.shared().map(|shared| shared.place_of(&placed)));
        match place {
            Some(place) => self.send(io, writer, (index, place), next),
            None => Ok(SendStep::Corrupt(index)),
        }
    }

    fn send<D: Disk>(
        &self,
        io: &mut Io<D>,
        writer: &mut RunWriter<'_>,
        (index, place): (u64, LogPlace),
        next: &mut InstallPlace,
    ) -> EngineResult<SendStep> {
        let Io { disk, logs, .. } = io;
        let Some(shared) = logs.shared() else { return Ok(SendStep::End) };
        let mut bytes = Vec::new();
        let head = match shared.log.read(disk, place, &mut bytes) {
            Ok(head) => head,
            Err(EngineError::Corrupt { .. }) => return Ok(SendStep::Corrupt(index)),
            Err(error) => return Err(error),
        };
        let (key, payload) = bytes[HEAD_BYTES..head.entry_bytes()].split_at(head.key_bytes);
        if !writer.push(&head, key, payload) {
            return Ok(SendStep::Enough);
        }
        next.after = index;
        Ok(SendStep::GoOn)
    }

    /// See [`crate::Engine::install_run`].
    pub(crate) fn install_shared_run<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        begins: bool,
        bytes: &[u8],
    ) -> EngineResult<InstalledRun> {
        self.admit_run(io, bytes)?;
        let wrong = |reason: &str| {
            let path = format!("a run of partition {}", self.id.partition);
            EngineError::Format { path, reason: reason.into() }
        };
        if self.incoming != InstallState::Runs {
            return Err(wrong("a run that was not requested"));
        }
        let (header, rest) = RunHeader::decode(bytes).ok_or_else(|| wrong("no header of a run"))?;
        let entries = entries_of(&header, rest).ok_or_else(|| wrong("other bytes than entries"))?;
        if begins != (header.begins == InstallPlace::default()) {
            return Err(wrong("a run that begins elsewhere"));
        }
        if begins && io.logs.view(self.handle).is_unused() {
            self.id.index_seed = header.index_seed;
        }
        let facts = self.log_facts();
        if let Some(shared) = io.logs.shared_mut() {
            shared.begin_run(self.handle, header.begins, facts)?;
        }
        let mut newest = 0;
        for entry in &entries {
            let Some(head) = entry.head.replicated() else { continue };
            let meta = head.meta;
            let (logs, mut resources) = io.split_resources();
            let appended = logs.append(&mut resources, self.handle, &meta, entry.key, [entry.payload], facts);
            let placed = self.stop_on_failure(appended)?;
            let units = units_of(meta.kind, meta.flags, entry.payload);
            let applied = self.apply(io, (&meta, None), placed, entry.key, entry.payload, units);
            self.stop_on_failure(applied)?;
            self.commit = self.commit.max(meta.index);
            newest = newest.max(meta.timestamp);
        }
        if let Some(shared) = io.logs.shared_mut() {
            shared.run_installed(self.handle, header.next);
        }
        Ok(InstalledRun { bytes: bytes.len(), newest })
    }

    /// See [`crate::Engine::finish_install`].
    pub(crate) fn finish_shared_install<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        last: (u32, u64),
    ) -> EngineResult<()> {
        if self.incoming == InstallState::No {
            return Err(EngineError::NotNext { last: io.logs.view(self.handle).last() });
        }
        let facts = self.log_facts();
        if let Some(shared) = io.logs.shared_mut() {
            shared.finish_install(self.handle, facts, last)?;
        }
        self.commit = last.1;
        self.recent.note_committed(last.0, last.1);
        self.incoming = InstallState::Complete;
        Ok(())
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
