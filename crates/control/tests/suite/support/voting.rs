//! Managers whose messages a test delivers one by one.

use zerohop_base::time::Time;
use zerohop_control::command::{ManagerId, ManagerInfo};
use zerohop_control::manager::{ManagerEffect, ManagerEvent, ManagerSettings, RaftManager, RequestAnswer};
use zerohop_placement::Address;

pub(crate) struct VotingMember {
    pub(crate) manager: RaftManager,
    disk: Vec<u8>,
    /// Messages that are sent and not delivered yet.
    pub(crate) sent: Vec<(ManagerId, Vec<u8>)>,
    pub(crate) now: u64,
    pub(crate) answers: Vec<RequestAnswer>,
}

fn settings(seed: u64) -> ManagerSettings {
    ManagerSettings { proposes_on_its_own: false, ..ManagerSettings::new(seed) }
}

impl VotingMember {
    /// A member with this log.
    pub(crate) fn with_log(disk: Vec<u8>) -> VotingMember {
        let id = RaftManager::id_in(&disk).expect("has a header");
        let (manager, _) = RaftManager::open(Time(0), &disk, settings(id.0)).expect("opens");
        VotingMember { manager, disk, sent: Vec::new(), now: 0, answers: Vec::new() }
    }

    /// Everything that it persists is durable at once.
    pub(crate) fn handle_event(&mut self, event: ManagerEvent<'_>) {
        let mut effects = self.manager.handle(Time(self.now), event);
        while !effects.is_empty() {
            let mut persisted = None;
            for effect in std::mem::take(&mut effects) {
                match effect {
                    ManagerEffect::Persist { number, bytes, replace } => {
                        if replace {
                            self.disk.clear();
                        }
                        self.disk.extend(bytes);
                        persisted = Some(number);
                    }
                    ManagerEffect::Send { to, bytes } => self.sent.push((to, bytes)),
                    ManagerEffect::Answer { answer, .. } => self.answers.push(answer),
                    _ => {}
                }
            }
            if let Some(number) = persisted {
                effects = self.manager.handle(Time(self.now), ManagerEvent::Persisted(number));
            }
        }
    }

    pub(crate) fn crash(&mut self) {
        self.manager = RaftManager::open(Time(self.now), &self.disk, settings(99)).expect("opens").0;
        self.sent.clear();
    }

    /// Delivers its messages to `other`.
    pub(crate) fn deliver(&mut self, other: &mut VotingMember) {
        let from = self.manager.id();
        let to = other.manager.id();
        for (_, bytes) in self.sent.extract_if(.., |(addressee, _)| *addressee == to) {
            other.handle_event(ManagerEvent::Received { from, bytes: &bytes });
        }
    }
}

/// The entry of a manager in the list of members.
pub(crate) fn info(id: u64) -> ManagerInfo {
    ManagerInfo { id: ManagerId(id), addr: Address::new(&format!("m-{id}:1")).expect("is one") }
}

/// Three bootstrap members of a control group.
pub(crate) fn bootstrap_members() -> [VotingMember; 3] {
    let members: Vec<ManagerInfo> = (1..=3).map(info).collect();
    [1, 2, 3].map(|id| VotingMember::with_log(RaftManager::bootstrap(ManagerId(id), &members)))
}
