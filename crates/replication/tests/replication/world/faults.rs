//! The faults of a run, and how they end.

use zerohop_engine::disk::Disk;
use zerohop_engine::disk::simulated::{DiskOperation, SimulatedDisk};
use zerohop_wire::ids::InstanceId;

use super::super::control::ReplicaMove;
use super::{HOSTS, ReplicationWorld, WorldEvent};

impl ReplicationWorld {
    pub(super) fn fault(&mut self) {
        let kinds = self.kinds;
        let mut host = self.faults.below(HOSTS as u64) as usize;
        if self.faults.chance(1, 2) {
            let partition = self.faults.below(self.partitions as u64) as usize;
            host = self.control.map.groups[partition].primary.instance.0 as usize;
        }
        let most = if self.faults.chance(1, 3) { 4_000_000 } else { 300_000 };
        let back = 20_000 + self.faults.below(most);
        if kinds.corruption && self.faults.chance(1, 3) {
            self.corruption();
            return;
        }
        if self.corrupt_at == Some(host) && !self.may_restart(host) {
            return;
        }
        match self.faults.below(9) {
            0 if kinds.full && self.faults.chance(1, 2) => {
                let (disk, room) = (self.hosts[host].disk.clone(), self.faults.below(40_000));
                disk.set_capacity(used_bytes(&disk) + room);
                self.at(back.min(1_500_000), WorldEvent::Room(host));
            }
            1 if kinds.syncs && self.faults.chance(1, 2) => {
                self.hosts[host].disk.set_sync_polls_max(1 + self.faults.below(200));
                let nth = 1 + self.faults.below(20);
                self.hosts[host].disk.fail_nth(DiskOperation::SyncDone, nth);
            }
            0 if kinds.crashes => {
                self.stop(host, true);
                if kinds.empties && self.faults.chance(1, 4) {
                    let seed = self.faults.next_u64();
                    self.hosts[host].disk = SimulatedDisk::new(seed);
                }
                self.at(back, WorldEvent::Start(host));
            }
            1 if kinds.kills => {
                self.stop(host, false);
                self.at(back, WorldEvent::Start(host));
            }
            2 if kinds.all_at_once && !kinds.corruption => {
                for host in 0..HOSTS {
                    self.stop(host, true);
                    let back = 20_000 + self.faults.below(1_500_000);
                    self.at(back, WorldEvent::Start(host));
                }
            }
            3 if kinds.pauses => {
                let most = if self.faults.chance(1, 2) { 3_000_000 } else { 600_000 };
                let pause = self.faults.below(most);
                self.hosts[host].paused_until_us = self.now + pause;
            }
            4 | 5 if kinds.cuts && self.cut.is_empty() => {
                let most = if self.faults.chance(1, 2) { 3_500_000 } else { 800_000 };
                let lasts = 100_000 + self.faults.below(most);
                self.at(lasts, WorldEvent::Repair);
                let one_way = self.faults.chance(1, 3);
                let from_control_only = self.faults.chance(1, 2);
                for other in 0..=HOSTS {
                    let is_cut = if from_control_only { other == HOSTS } else { self.faults.chance(2, 3) };
                    if other != host && is_cut {
                        self.cut.insert((host, other));
                        if !one_way {
                            self.cut.insert((other, host));
                        }
                    }
                }
            }
            // A primary that only the control group cannot reach, and a successor that has just restarted.
            6 if kinds.cuts && kinds.kills && !kinds.corruption && self.cut.is_empty() => {
                let group = &self.control.map.groups[self.faults.below(self.partitions as u64) as usize];
                let primary = group.primary.instance.0 as usize;
                let heir = group.in_sync.first().map(|heir| heir.instance.0 as usize);
                self.cut.extend([(primary, HOSTS), (HOSTS, primary)]);
                self.at(2_500_000, WorldEvent::Repair);
                if let Some(heir) = heir {
                    let after = 350_000 + self.faults.below(400_000);
                    self.at(after, WorldEvent::Restart(heir));
                }
            }
            // A primary that the control group cannot reach, and a successor that is cut off from it when it is promoted. The
            // last lease is used to its end.
            8 if kinds.cuts && self.cut.is_empty() => {
                let group = &self.control.map.groups[self.faults.below(self.partitions as u64) as usize];
                let primary = group.primary.instance.0 as usize;
                let heir = group.in_sync.first().map(|heir| heir.instance.0 as usize);
                self.cut.extend([(primary, HOSTS), (HOSTS, primary)]);
                self.at(1_800_000, WorldEvent::Repair);
                if let Some(heir) = heir {
                    let after = 500_000 + self.faults.below(200_000);
                    self.at(after, WorldEvent::Cut(primary, heir));
                }
            }
            7 if kinds.moves => {
                let partition = self.faults.below(self.partitions as u64) as usize;
                let to = InstanceId(self.faults.below(HOSTS as u64) as u32);
                self.control.moving.get_or_insert(ReplicaMove { partition, to });
            }
            _ => {}
        }
    }

    /// Changes some bytes of the one disk that becomes corrupt in this run.
    fn corruption(&mut self) {
        let host = *self.corrupt_at.get_or_insert(self.faults.below(HOSTS as u64) as usize);
        let partition = self.faults.below(self.partitions as u64);
        let folder = format!("p-{partition:016x}");
        let mut disk = self.hosts[host].disk.clone();
        let Ok(names) = disk.list(&folder) else { return };
        let names: Vec<_> =
            names.into_iter().filter(|name| name.bytes > 0 && name.name.ends_with(".seg")).collect();
        if names.is_empty() {
            return;
        }
        let name = &names[self.faults.below(names.len() as u64) as usize];
        // Data that is not durable yet does not become corrupt.
        let (offset, mask) = (self.faults.below(name.bytes), 1 + self.faults.below(255) as u8);
        if disk.corrupt_at(&format!("{folder}/{}", name.name), offset, mask).is_ok() {
            self.past.corruptions += 1;
        }
    }

    /// Whether another member that can be primary certainly has the data that a host may be unable to read after a restart.
    fn may_restart(&self, host: usize) -> bool {
        self.control.map.groups.iter().all(|group| {
            let members = std::iter::once(&group.primary).chain(&group.in_sync);
            let mut in_sync = members.map(|member| member.instance.0 as usize);
            in_sync.any(|other| other != host && self.hosts[other].live.is_some())
        })
    }

    /// All faults end, and stopped processes start.
    pub fn heal(&mut self) {
        self.is_healed = true;
        self.cut.clear();
        for host in 0..HOSTS {
            self.hosts[host].disk.set_capacity(None);
            self.hosts[host].disk.set_sync_polls_max(4);
            self.hosts[host].paused_until_us = 0;
            if self.hosts[host].live.is_none() {
                self.at(1_000, WorldEvent::Start(host));
            }
        }
    }
}

/// The bytes that its files use.
fn used_bytes(disk: &SimulatedDisk) -> u64 {
    disk.set_capacity(u64::MAX / 2);
    u64::MAX / 2 - disk.clone().free_bytes().unwrap_or(0)
}
