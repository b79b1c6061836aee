//! Two candidates of one term, and a voter that restarts between their requests: it votes once.

use zerohop_control::manager::ManagerEvent;

use crate::support::voting::{VotingMember, bootstrap_members};

/// Longer than any election time-out.
const ELECTION_US: u64 = 1_000_000;

#[test]
fn first_bootstrap_member_is_elected_first() {
    let [mut one, mut other, _] = bootstrap_members();
    let tick = |member: &mut VotingMember| {
        member.now += 50_000;
        member.handle_event(ManagerEvent::Tick);
    };
    // No other member runs yet.
    for _ in 0..5 {
        tick(&mut one);
        one.sent.clear();
        tick(&mut other);
        assert!(other.sent.is_empty(), "it waits for a leader's message");
    }
    for _ in 0..2 {
        tick(&mut one);
        for _ in 0..4 {
            one.deliver(&mut other);
            other.deliver(&mut one);
        }
    }
    assert!(one.manager.leading().is_some());
}

/// The terms in which the two candidates lead, if they do.
fn elect() -> [Option<u64>; 2] {
    let [mut one, mut other, mut voter] = bootstrap_members();
    // Both send a pre-vote request before either requests a vote; neither receives the other's
    // message.
    for candidate in [&mut one, &mut other] {
        while candidate.sent.is_empty() && candidate.now < 2 * ELECTION_US {
            candidate.now += 50_000;
            candidate.handle_event(ManagerEvent::Tick);
        }
        candidate.deliver(&mut voter);
    }
    for candidate in [&mut one, &mut other] {
        candidate.sent.clear();
        voter.deliver(candidate);
    }
    // The vote for the first candidate is sent, and is durable, and the voter restarts. Then the
    // second candidate asks.
    one.deliver(&mut voter);
    voter.deliver(&mut one);
    voter.crash();
    other.deliver(&mut voter);
    voter.deliver(&mut other);
    [one.manager.leading(), other.manager.leading()]
}

#[test]
fn restarted_voter_does_not_vote_twice_in_one_term() {
    let [one, other] = elect();
    assert!(one.is_some(), "the first is elected");
    assert_eq!(other, None);
}

/// Shows that the test above detects the mutant.
#[cfg(debug_assertions)]
#[test]
fn unwritten_vote_makes_two_leaders_in_one_term() {
    use zerohop_control::planted::{Bug, plant};
    plant(Some(Bug::VoteNotSynced));
    let [one, other] = elect();
    plant(None);
    assert!(one.is_some() && one == other, "{one:?}, {other:?}");
}
