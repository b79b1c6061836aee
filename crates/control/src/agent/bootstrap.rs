//! The first start of a control group. A bootstrap member whose log is lost must not bootstrap again under its old number,
//! because it might vote twice. So a member bootstraps in two cases only. In the first case it has heard from all bootstrap
//! members, and none of them has a log. In the second case a member that has bootstrapped confirms that it had heard from
//! this very start before.
//!
//! A node that bootstraps on the evidence of another node forwards that node's list of heard starts instead
//! of its own. A start that only this node has heard may belong to a member that bootstrapped and then lost
//! its log. A member that this node has not heard has lost nothing.

use std::collections::BTreeMap;

use zerohop_placement::Address;
use zerohop_wire::ids::{Incarnation, MapEpoch};

use super::message::AgentBody;
use super::{Agent, AgentEffect, EndReason};
use crate::command::{ManagerId, ManagerInfo};
use crate::manager::RaftManager;
use crate::planted::{Bug, is_planted};
use zerohop_base::time::Time;

/// Time between two rounds of requests.
const REQUEST_ROUND_MS: u64 = 100;

/// See the module.
#[derive(Debug)]
pub(super) struct Bootstrap {
    id: ManagerId,
    members: Vec<ManagerInfo>,
    addresses: Vec<Address>,
    /// The starts of the other bootstrap members that have no log either.
    known_starts: BTreeMap<Address, Incarnation>,
    pub(super) next: Time,
}

impl Bootstrap {
    pub(super) fn new(
        now: Time,
        id: ManagerId,
        members: Vec<ManagerInfo>,
        addresses: Vec<Address>,
    ) -> Bootstrap {
        Bootstrap { id, members, addresses, known_starts: BTreeMap::new(), next: now }
    }

    /// For people.
    pub(super) fn waits_for(&self) -> String {
        let missing =
            self.members.iter().filter(|one| one.id != self.id && !self.known_starts.contains_key(&one.addr));
        let missing: Vec<&str> = missing.map(|one| one.addr.as_str()).collect();
        format!(
            "the other bootstrap members of the control group, of which {} have not been heard",
            missing.join(", ")
        )
    }
}

impl Agent {
    pub(super) fn tick_bootstrap(&mut self) {
        let Some(bootstrap) = &mut self.bootstrap else { return };
        if self.now < bootstrap.next {
            return;
        }
        bootstrap.next = self.now.after_ms(REQUEST_ROUND_MS);
        let id = bootstrap.id;
        let others: Vec<Address> =
            bootstrap.members.iter().filter(|one| one.id != id).map(|one| one.addr.clone()).collect();
        for other in &others {
            self.send(other, AgentBody::BootstrapRequest { incarnation: self.settings.incarnation });
        }
        self.bootstrap_if_all_known();
    }

    pub(super) fn handle_bootstrap_request(&mut self, from: &Address, incarnation: Incarnation) {
        if self.bootstrap.is_none() && self.manager.is_none() && self.map().epoch() == MapEpoch(0) {
            return;
        }
        let body = AgentBody::BootstrapState {
            incarnation: self.settings.incarnation,
            is_bootstrapped: self.bootstrap.is_none(),
            expects: self.bootstrapped_with.get(from).copied().unwrap_or(Incarnation(0)),
            known_starts: self.bootstrapped_with.clone().into_iter().collect(),
        };
        self.record_bootstrap_start(from, incarnation);
        self.send(from, body);
    }

    pub(super) fn handle_bootstrap_state(
        &mut self,
        from: &Address,
        (incarnation, is_bootstrapped, expects): (Incarnation, bool, Incarnation),
        starts: Vec<(Address, Incarnation)>,
    ) {
        let is_other = |one: &ManagerInfo| one.addr == *from;
        if !self.bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.members.iter().any(is_other)) {
            return;
        }
        if !is_bootstrapped {
            self.record_bootstrap_start(from, incarnation);
            self.bootstrap_if_all_known();
        } else if expects == self.settings.incarnation {
            self.bootstrap(starts.into_iter().collect());
        } else {
            self.end(EndReason::BootstrappedBefore { by: from.clone() });
        }
    }

    /// Records a start of a bootstrap member that has not bootstrapped. A member that sends `BootstrapRequest` has
    /// not, either.
    fn record_bootstrap_start(&mut self, from: &Address, incarnation: Incarnation) {
        if let Some(bootstrap) = &mut self.bootstrap
            && bootstrap.members.iter().any(|one| one.addr == *from && one.id != bootstrap.id)
        {
            bootstrap.known_starts.insert(from.clone(), incarnation);
        }
    }

    fn bootstrap_if_all_known(&mut self) {
        let Some(bootstrap) = &self.bootstrap else { return };
        if bootstrap.known_starts.len() + 1 >= bootstrap.members.len()
            || is_planted(Bug::BootstrapWithoutPeers)
        {
            let starts = bootstrap.known_starts.clone();
            self.bootstrap(starts);
        }
    }

    /// Bootstraps. `starts` has the starts that the very first member to bootstrap had heard from.
    fn bootstrap(&mut self, starts: BTreeMap<Address, Incarnation>) {
        let Some(Bootstrap { id, members, addresses, .. }) = self.bootstrap.take() else {
            return;
        };
        let log = RaftManager::bootstrap_with(id, &members, &addresses);
        match RaftManager::open(self.now, &log, self.manager_settings()) {
            Ok((manager, _)) => {
                self.bootstrapped_with = starts;
                self.effects.push(AgentEffect::Persist { number: 0, bytes: log, replace: true });
                self.install_manager(manager);
            }
            Err(error) => self.end(EndReason::Refused { reason: error.to_string() }),
        }
    }
}
