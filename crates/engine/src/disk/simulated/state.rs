//! The state of a simulated disk, and the common parts of its operations: being counted, taking time, failing.

use std::collections::BTreeMap;

use super::faults::{DiskOperation, Latency, OperationCounts, SimulatedFaults};
use super::file::FileBytes;
use crate::disk::crash_point::CrashPoint;
use crate::disk::names::DiskNames;
use crate::disk::{DiskError, DiskResult, FileId, SyncTicket};
use zerohop_base::random::Random;

#[derive(Clone, Debug)]
pub(super) struct SimulatedState {
    pub(super) names: DiskNames,
    /// By the numbers of `names`. A file without a name stays while a crash may restore it.
    pub(super) files: BTreeMap<u64, FileBytes>,
    pub(super) open: BTreeMap<FileId, u64>,
    pub(super) begun: BTreeMap<SyncTicket, PendingDiskSync>,
    pub(super) next_id: u64,
    /// Issued bytes of all files that have a name.
    pub(super) used: u64,
    pub(super) limits: SpaceLimits,
    pub(super) faults: SimulatedFaults,
    pub(super) fail_nth: BTreeMap<DiskOperation, u64>,
    pub(super) power: PowerState,
    pub(super) latency: Latency,
    pub(super) sync_polls_max: u64,
    pub(super) elapsed_us: u64,
    pub(super) counts: OperationCounts,
    pub(super) random: Streams,
}

/// Calls that are refused for lack of a resource: after some that pass.
#[derive(Clone, Debug)]
pub(super) struct Refusals {
    pub(super) error: DiskError,
    pub(super) before: u64,
    pub(super) times: u64,
}

/// When the power fails, and which calls fail before.
#[derive(Clone, Debug, Default)]
pub(super) struct PowerState {
    pub(super) refusals: Option<Refusals>,
    /// Calls that still succeed, if it is to fail; 0: it is off.
    pub(super) operations_until_cut: Option<u64>,
    pub(super) aimed: Option<AimedPowerCut>,
    /// The point at which an aimed cut has begun.
    pub(super) cut_at: Option<CrashPoint>,
    /// How often the engine has reached each point since the disk was made.
    pub(super) reached: [u64; CrashPoint::ALL.len()],
}

/// A cut of the power at one of some points in the work of the engine.
#[derive(Clone, Debug)]
pub(super) struct AimedPowerCut {
    pub(super) points: Vec<CrashPoint>,
    /// How often the engine must still reach any of them.
    pub(super) nth: u64,
    /// Calls that still succeed then.
    pub(super) operations: u64,
}

/// How the disk gives space to files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpaceLimits {
    /// Bytes of all files together; `None` for no limit.
    pub(super) capacity: Option<u64>,
    /// The greatest length of a file; `None` for no limit.
    pub(super) file_bytes_max: Option<u64>,
    /// It says that few files can still be created.
    pub(super) lacks_files: bool,
    /// Bytes that it allocates ahead for a file that is announced to grow.
    pub(super) preallocated_bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct PendingDiskSync {
    pub(super) file: u64,
    pub(super) polls_left: u64,
    /// Completed by a later sync of the file, before this one was polled.
    pub(super) carried_out: bool,
}

/// Independent streams of one seed.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    pub(super) fail: Random,
    pub(super) corruption: Random,
    pub(super) stall: Random,
    pub(super) crash: Random,
    pub(super) schedule: Random,
    pub(super) scarcity: Random,
}

impl Streams {
    pub(super) fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        Streams {
            fail: random.fork(1),
            corruption: random.fork(2),
            stall: random.fork(3),
            crash: random.fork(4),
            schedule: random.fork(5),
            scarcity: random.fork(6),
        }
    }
}

impl SimulatedState {
    pub(super) fn new(seed: u64) -> Self {
        SimulatedState {
            names: DiskNames::default(),
            files: BTreeMap::new(),
            open: BTreeMap::new(),
            begun: BTreeMap::new(),
            next_id: 0,
            used: 0,
            limits: SpaceLimits::default(),
            faults: SimulatedFaults::default(),
            fail_nth: BTreeMap::new(),
            power: PowerState::default(),
            latency: Latency::default(),
            sync_polls_max: super::SYNC_POLLS_MAX,
            elapsed_us: 0,
            counts: OperationCounts::default(),
            random: Streams::new(seed),
        }
    }

    /// The error for an operation that finds no descriptor.
    pub(super) fn needs_descriptor(&mut self) -> DiskResult<()> {
        let Some(chance) = self.faults.scarce.filter(|_| !self.power_is_off()) else { return Ok(()) };
        match self.random.scarcity.chance(chance.numerator.into(), chance.denominator.into()) {
            true => Err(DiskError::Scarce { what: "the simulated process has no free descriptor" }),
            false => Ok(()),
        }
    }

    /// The error for an operation that [`super::SimulatedDisk::refuse`] refuses.
    pub(super) fn refuse_once(&mut self, operation: DiskOperation) -> DiskResult<()> {
        let is_off = self.power_is_off();
        let Some(refusals) = self.power.refusals.as_mut().filter(|_| !is_off) else { return Ok(()) };
        let needs_space = matches!(
            operation,
            DiskOperation::Open
                | DiskOperation::Append
                | DiskOperation::Truncate
                | DiskOperation::Rename
                | DiskOperation::Remove
        );
        if refusals.error == DiskError::Full && !needs_space {
            return Ok(());
        }
        match refusals {
            Refusals { before: 0, times: 0, .. } => Ok(()),
            Refusals { before: 0, times, error } => {
                *times -= 1;
                Err(error.clone())
            }
            Refusals { before, .. } => {
                *before -= 1;
                Ok(())
            }
        }
    }

    /// Counts an operation on a path, lets its time pass, and decides whether it fails.
    pub(super) fn admit(&mut self, operation: DiskOperation, bytes: usize, path: &str) -> DiskResult<()> {
        self.refusal(operation, bytes)
            .map_or(Ok(()), |reason| Err(failed(path.to_owned(), operation, reason)))
    }

    pub(super) fn admit_file(
        &mut self,
        operation: DiskOperation,
        bytes: usize,
        file: FileId,
    ) -> DiskResult<()> {
        let refusal = self.refusal(operation, bytes);
        let number = self.number(file, operation)?;
        refusal.map_or(Ok(()), |reason| Err(failed(self.path_of(number), operation, reason)))
    }

    pub(super) fn admit_number(
        &mut self,
        operation: DiskOperation,
        bytes: usize,
        number: u64,
    ) -> DiskResult<()> {
        self.refusal(operation, bytes)
            .map_or(Ok(()), |reason| Err(failed(self.path_of(number), operation, reason)))
    }

    pub(super) fn refusal(&mut self, operation: DiskOperation, bytes: usize) -> Option<&'static str> {
        self.counts.count(operation);
        self.elapsed_us += self.latency.of(operation, bytes);
        if let Some(stall) = self.faults.stall
            && self.random.stall.chance(stall.numerator.into(), stall.denominator.into())
        {
            self.elapsed_us += self.faults.stall_us;
        }
        match &mut self.power.operations_until_cut {
            Some(0) => return Some("the power is off"),
            Some(left) => *left -= 1,
            None => {}
        }
        if let Some(left) = self.fail_nth.get_mut(&operation) {
            *left -= 1;
            if *left == 0 {
                self.fail_nth.remove(&operation);
                return Some("simulated failure");
            }
        }
        let chance = self.faults.fail.get(&operation)?;
        self.random
            .fail
            .chance(chance.numerator.into(), chance.denominator.into())
            .then_some("simulated failure")
    }

    pub(super) fn power_is_off(&self) -> bool {
        self.power.operations_until_cut == Some(0)
    }

    pub(super) fn number(&self, file: FileId, operation: DiskOperation) -> DiskResult<u64> {
        self.open.get(&file).copied().ok_or_else(|| DiskError::not_open(file, operation.name()))
    }

    pub(super) fn file(&mut self, file: FileId, operation: DiskOperation) -> DiskResult<&mut FileBytes> {
        let number = self.number(file, operation)?;
        self.files.get_mut(&number).ok_or_else(|| DiskError::not_open(file, operation.name()))
    }

    /// Carries out the syncs of a file that were started before `before`, or all of them: syncs of one file end in the order
    /// in which they started.
    pub(super) fn complete_begun(&mut self, number: u64, before: Option<SyncTicket>) {
        let before = before.unwrap_or(SyncTicket(u64::MAX));
        let waiting = self.begun.range_mut(..before).filter(|(_, b)| b.file == number && !b.carried_out);
        let tickets: Vec<SyncTicket> = waiting
            .map(|(ticket, begun)| {
                begun.carried_out = true;
                *ticket
            })
            .collect();
        tickets.into_iter().for_each(|ticket| self.complete(number, ticket));
    }

    pub(super) fn complete(&mut self, number: u64, ticket: SyncTicket) {
        if let Some(bytes) = self.files.get_mut(&number) {
            if self.faults.lose_syncs { bytes.drop_sync(ticket) } else { bytes.sync_complete(ticket) }
        }
    }

    pub(super) fn corruption(&mut self, number: u64, offset: u64, mask: u8) {
        if let Some(bytes) = self.files.get_mut(&number) {
            bytes.corruption(offset as usize, mask);
        }
    }

    /// Ends the ids of a file that lost its name and frees its space.
    pub(super) fn remove_unnamed(&mut self, number: Option<u64>) {
        let Some(number) = number else { return };
        self.open.retain(|_, open| *open != number);
        let file = &self.files[&number];
        self.used -= file.issued().len() as u64 + file.allocated_ahead();
    }

    pub(super) fn restart(&mut self) {
        self.open.clear();
        self.begun.clear();
        self.power = PowerState { reached: self.power.reached, ..PowerState::default() };
        let mut named: Vec<u64> = self.names.files().into_iter().map(|(_, number)| number).collect();
        named.sort_unstable();
        self.files.retain(|number, _| named.binary_search(number).is_ok());
        let space = |file: &FileBytes| file.issued().len() as u64 + file.allocated_ahead();
        self.used = self.files.values().map(space).sum();
    }

    pub(super) fn free(&self) -> u64 {
        self.limits.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used))
    }

    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn beyond_end(&self, file: FileId, offset: u64, bytes: usize) -> DiskError {
        let path = self.open.get(&file).map_or_else(String::new, |number| self.path_of(*number));
        DiskError::BeyondEnd { path, offset, bytes: bytes as u64 }
    }

    pub(super) fn path_of(&self, number: u64) -> String {
        let files = self.names.files().into_iter();
        files.into_iter().find(|(_, file)| *file == number).map_or_else(String::new, |(path, _)| path)
    }
}

fn failed(path: String, operation: DiskOperation, reason: &str) -> DiskError {
    DiskError::Failed { path, operation: operation.name(), reason: reason.to_owned() }
}
