//! Members of a group that join, read, commit, pause, leave and die, and a client that removes those whose time is over.

use std::collections::BTreeMap;

use zerohop_base::random::Random;
use zerohop_layer_log::{
    CommitOffsets, ExpireMembers, GroupOwner, JoinGroup, LogError, LogPage, MemberId, Membership,
    OffsetRecord, ReadLog, ReadRequest, commit_offsets, fetch_offsets, heartbeat, join_group, leave_group,
};

use crate::machine::ProcedureRun;
use crate::world::{GROUP, Intent, World};

/// How long a member stays without a heartbeat.
const SESSION: u64 = 300;

enum MemberWork {
    Idle,
    Joining(ProcedureRun<Membership>),
    Fetching(ProcedureRun<Vec<Option<OffsetRecord>>>),
    Reading(u32, ProcedureRun<LogPage>),
    Committing(Vec<(u32, u64)>, ProcedureRun<()>),
    Beating(ProcedureRun<Membership>),
    Leaving(ProcedureRun<()>),
}

/// A member.
pub(crate) struct Member {
    id: MemberId,
    membership: Option<Membership>,
    /// What was committed in each partition, and where it reads.
    positions: BTreeMap<u32, (u64, u64)>,
    work: MemberWork,
    paused_until: u64,
    pub(crate) commits: u64,
    pub(crate) refused: u64,
}

fn new_id(random: &mut Random) -> MemberId {
    let mut id = [0; 16];
    random.fill(&mut id);
    MemberId(id)
}

impl Member {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self {
            id: new_id(random),
            membership: None,
            positions: BTreeMap::new(),
            work: MemberWork::Idle,
            paused_until: 0,
            commits: 0,
            refused: 0,
        }
    }

    fn owner(&self) -> Option<GroupOwner> {
        let membership = self.membership.as_ref()?;
        Some(GroupOwner { member: self.id, generation: membership.generation })
    }

    /// Begins something. Without faults, the member reads and commits only.
    fn begin(&mut self, world: &World, random: &mut Random, has_faults: bool) {
        let (Some(owner), Some(membership)) = (self.owner(), self.membership.clone()) else {
            let join = JoinGroup { group: GROUP.to_owned(), member: self.id, session: SESSION };
            self.work = MemberWork::Joining(ProcedureRun::new(join_group(join), Intent::Member));
            return;
        };
        let partitions: Vec<u32> = membership.partitions.collect();
        if self.positions.len() < partitions.len() {
            let fetch = fetch_offsets(GROUP.to_owned(), Some(owner), partitions);
            self.work = MemberWork::Fetching(ProcedureRun::new(fetch, Intent::None));
            return;
        }
        let changed = self.positions.iter().filter(|(_, (from, to))| from < to);
        let changed: Vec<(u32, u64, u64)> = changed.map(|(one, (from, to))| (*one, *from, *to)).collect();
        match random.below(60) {
            0 if has_faults => {
                let leave = leave_group(GROUP.to_owned(), self.id);
                self.work = MemberWork::Leaving(ProcedureRun::new(leave, Intent::Member));
                self.membership = None;
                self.positions.clear();
            }
            1 if has_faults => self.paused_until = world.now + random.below(2 * SESSION),
            2..=15 => {
                let beat = heartbeat(GROUP.to_owned(), owner, SESSION);
                self.work = MemberWork::Beating(ProcedureRun::new(beat, Intent::None));
            }
            16..=35 if !changed.is_empty() => {
                let offsets: Vec<(u32, u64)> = changed.iter().map(|(one, _, to)| (*one, *to)).collect();
                let commit =
                    CommitOffsets { group: GROUP.to_owned(), owner: Some(owner), offsets: offsets.clone() };
                let intent =
                    Intent::Commit(owner, changed.iter().map(|(one, from, _)| (*one, *from)).collect());
                self.work =
                    MemberWork::Committing(offsets, ProcedureRun::new(commit_offsets(commit), intent));
            }
            _ if !partitions.is_empty() => {
                let partition = partitions[random.below(partitions.len() as u64) as usize];
                let offset = self.positions.get(&partition).map_or(0, |(_, to)| *to);
                let request = ReadRequest { partition, offset, bytes: 300, wait_until: 0 };
                self.work =
                    MemberWork::Reading(partition, ProcedureRun::new(ReadLog::new(request), Intent::None));
            }
            _ => {}
        }
    }

    /// Does one step. The error is a violation.
    pub(crate) fn step(
        &mut self,
        world: &mut World,
        random: &mut Random,
        has_faults: bool,
    ) -> Result<(), String> {
        if world.now < self.paused_until && has_faults {
            return Ok(());
        }
        if has_faults && random.chance(1, 400) {
            // It dies, and another member comes in its place.
            let (commits, refused) = (self.commits, self.refused);
            *self = Self { commits, refused, ..Self::new(random) };
        }
        let error = match std::mem::replace(&mut self.work, MemberWork::Idle) {
            MemberWork::Idle => {
                self.begin(world, random, has_faults);
                return Ok(());
            }
            MemberWork::Joining(mut run) => match run.advance(world, random)? {
                None => {
                    self.work = MemberWork::Joining(run);
                    return Ok(());
                }
                Some(Ok(membership)) => {
                    self.membership = Some(membership);
                    self.positions.clear();
                    return Ok(());
                }
                Some(Err(error)) => error,
            },
            MemberWork::Fetching(mut run) => match run.advance(world, random)? {
                None => {
                    self.work = MemberWork::Fetching(run);
                    return Ok(());
                }
                Some(Ok(offsets)) => {
                    let offsets = offsets.iter().map(|record| record.map_or(0, |record| record.offset));
                    let partitions = self.membership.clone().map_or(0..0, |one| one.partitions);
                    self.positions = partitions.zip(offsets.map(|offset| (offset, offset))).collect();
                    return Ok(());
                }
                Some(Err(error)) => error,
            },
            MemberWork::Reading(partition, mut run) => match run.advance(world, random)? {
                None => {
                    self.work = MemberWork::Reading(partition, run);
                    return Ok(());
                }
                Some(Ok(page)) => return self.take(world, partition, &page),
                Some(Err(LogError::OutOfRange { first, .. })) => {
                    if let Some((_, to)) = self.positions.get_mut(&partition) {
                        *to = (*to).max(first);
                    }
                    return Ok(());
                }
                Some(Err(error)) => error,
            },
            MemberWork::Committing(offsets, mut run) => match run.advance(world, random)? {
                None => {
                    self.work = MemberWork::Committing(offsets, run);
                    return Ok(());
                }
                Some(Ok(())) => {
                    self.commits += 1;
                    for (partition, offset) in offsets {
                        if let Some((from, _)) = self.positions.get_mut(&partition) {
                            *from = offset;
                        }
                    }
                    return Ok(());
                }
                Some(Err(error)) => {
                    // Perhaps it is committed: the member fetches what is.
                    self.positions.clear();
                    error
                }
            },
            MemberWork::Beating(mut run) => match run.advance(world, random)? {
                None => {
                    self.work = MemberWork::Beating(run);
                    return Ok(());
                }
                Some(Ok(_)) => return Ok(()),
                Some(Err(error)) => error,
            },
            MemberWork::Leaving(mut run) => match run.advance(world, random)? {
                None => {
                    self.work = MemberWork::Leaving(run);
                    return Ok(());
                }
                Some(Ok(())) => {
                    self.id = new_id(random);
                    return Ok(());
                }
                // It goes without knowing: its time ends by itself.
                Some(Err(error)) => error,
            },
        };
        match error {
            LogError::OldGeneration { .. } | LogError::UnknownMember => {
                self.refused += 1;
                self.membership = None;
                self.positions.clear();
                Ok(())
            }
            LogError::Unavailable(_) | LogError::Busy => Ok(()),
            error => Err(format!("a member is refused: {error}")),
        }
    }

    /// Takes the records of a page.
    fn take(&mut self, world: &mut World, partition: u32, page: &LogPage) -> Result<(), String> {
        let Some(owner) = self.owner() else { return Ok(()) };
        let Some((_, position)) = self.positions.get_mut(&partition) else { return Ok(()) };
        for batch in &page.batches {
            let records: Vec<u64> = batch.records_from(*position).map(|(offset, _)| offset).collect();
            for offset in records {
                world.groups.deliver(owner, partition, offset)?;
                *position = offset + 1;
            }
        }
        Ok(())
    }
}

/// Removes members whose time is over, again and again.
#[derive(Default)]
pub(crate) struct Expirer {
    active: Option<ProcedureRun<usize>>,
    pub(crate) members: u64,
}

impl Expirer {
    pub(crate) fn step(&mut self, world: &mut World, random: &mut Random) -> Result<(), String> {
        let run = self
            .active
            .get_or_insert_with(|| ProcedureRun::new(ExpireMembers::new(GROUP.to_owned()), Intent::Member));
        if let Some(result) = run.advance(world, random)? {
            self.active = None;
            self.members += result.unwrap_or_default() as u64;
        }
        Ok(())
    }
}
