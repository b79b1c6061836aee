//! Tokens expire by the clock of the leader.

use super::*;

/// When the tokens of these tests expire, in milliseconds since 1970.
const EXPIRES_MS: u64 = 1_800_000_000_000;

impl LedCluster {
    fn put_token(&mut self) {
        let grant = Grant { keyspace: KeyspaceId::NONE, permissions: Permissions::ALL };
        let token = TokenEntry::new(9, "robot".parse().expect("is a name"), vec![grant]).expect("is one");
        self.request_until_decided(ControlCommand::PutToken(token.until(EXPIRES_MS))).result.expect("is put");
    }

    fn send_clock(&mut self, at: usize, unix_ms: u64) {
        self.handle_event(at, ManagerEvent::Clock { unix_ms });
        self.run(self.now + 1_000_000);
    }

    /// The managers that want the time of day.
    fn needing_clock(&self) -> Vec<usize> {
        let wants = |at: &usize| self.managers[*at].as_ref().is_some_and(RaftManager::needs_clock);
        (0..MANAGERS).filter(wants).collect()
    }

    /// The token as all running managers have it; they must agree.
    fn token(&self) -> Result<(), AuthFault> {
        let known = |one: &RaftManager| one.map().token(9).map(|_| ());
        let mut all: Vec<_> = self.managers.iter().flatten().map(known).collect();
        all.dedup();
        assert_eq!(all.len(), 1, "they do not agree: {all:?}");
        all[0]
    }
}

#[test]
fn token_expires_permanently_by_leader_clock_alone() {
    let mut cluster = LedCluster::new(31, 0);
    assert_eq!(cluster.needing_clock(), Vec::<usize>::new());
    cluster.put_token();
    let leader = cluster.leader().expect("there is a leader");
    assert_eq!(cluster.needing_clock(), [leader]);
    // The clocks of followers are wrong, and decide nothing.
    for at in (0..MANAGERS).filter(|at| *at != leader) {
        cluster.send_clock(at, u64::MAX);
    }
    cluster.send_clock(leader, EXPIRES_MS - 1);
    assert_eq!(cluster.token(), Ok(()));
    // The new leader's clock is behind: the token is still valid, and the old time does not extend
    // its life.
    cluster.kill(leader);
    cluster.run(cluster.now + 3_000_000);
    let next = cluster.leader().expect("another leads");
    assert_eq!((cluster.needing_clock(), cluster.token()), (vec![next], Ok(())));
    cluster.send_clock(next, EXPIRES_MS - 60_000);
    assert_eq!(cluster.token(), Ok(()));
    cluster.send_clock(next, EXPIRES_MS);
    assert_eq!(cluster.token(), Err(AuthFault::TokenExpired));
    // A clock that goes back does not revive the token.
    cluster.send_clock(next, 0);
    assert_eq!((cluster.token(), cluster.needing_clock()), (Err(AuthFault::TokenExpired), vec![]));
    assert_eq!(cluster.map.token(9), Err(AuthFault::TokenExpired));
}

#[test]
fn last_token_decision_of_a_leader_is_atomic() {
    let mut expired = 0;
    for seed in 41..53 {
        let mut cluster = LedCluster::new(seed, 0);
        cluster.put_token();
        let leader = cluster.leader().expect("there is a leader");
        cluster.handle_event(leader, ManagerEvent::Clock { unix_ms: EXPIRES_MS });
        // The leader's message has reached both followers, one, or none.
        let lives_us = cluster.draw(3_000);
        cluster.run(cluster.now + lives_us);
        cluster.event_queue.retain(
            |_, item| !matches!(item, LedEvent::Manager { from, .. } if from.0 as usize - 1 == leader),
        );
        cluster.kill(leader);
        cluster.run(cluster.now + 3_000_000);
        let next = cluster.leader().expect("another leads");
        let left = cluster.token();
        expired += u32::from(left.is_err());
        // The clock of the new leader is behind.
        cluster.send_clock(next, EXPIRES_MS - 60_000);
        assert_eq!(cluster.token(), left, "seed {seed}");
        cluster.send_clock(next, EXPIRES_MS + 1);
        assert_eq!(cluster.token(), Err(AuthFault::TokenExpired), "seed {seed}");
    }
    assert!((1..12).contains(&expired), "{expired} of 12 have expired it: both cases must occur");
}
