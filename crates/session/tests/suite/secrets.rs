//! Clusters with a secret, and clients with the right one, another, or none.

use zerohop_session::{AttemptFailure, Reply, SessionError};
use zerohop_wire::auth::{Credential, Guard, Nonces, Secret};
use zerohop_wire::{AuthFault, Failure};

use crate::support::server::FakeCluster;
use crate::support::{SessionWorld, append, lookup};

const OURS: &str = "a secret of tests, long enough to be one";
const ANOTHER: &str = "another secret of tests, just as long as it";

fn secret(text: &str) -> Secret {
    Secret::from_text(text.as_bytes()).expect("long enough")
}

/// A cluster with a secret or none, and a client with a secret or none.
fn world(servers: Option<&str>, clients: Option<&str>) -> SessionWorld {
    let mut cluster = FakeCluster::new(2, 1);
    cluster.greetings.guard = servers.map(|text| Guard::new(&secret(text), Nonces::new([1; 32])));
    SessionWorld::new(1, cluster, |settings| {
        settings.credential = clients.map(|text| Credential::of_secret(&secret(text), Nonces::new([2; 32])));
    })
}

#[test]
fn client_with_secret_is_served_after_reconnect() {
    let mut world = world(Some(OURS), Some(OURS));
    for round in 0..3 {
        let tokens: Vec<usize> = (0..20).map(|at| world.submit(append(&format!("key-{at}"), "v"))).collect();
        world.run_until_idle();
        assert!(tokens.iter().all(|token| world.result(*token).is_ok()), "round {round}");
        world.reset_all();
    }
}

#[test]
fn client_with_wrong_secret_fails_at_once() {
    let failed = |fault| Failure::AuthFailed { fault };
    for (servers, clients, expected) in [
        (Some(OURS), None, Failure::AuthRequired),
        (Some(OURS), Some(ANOTHER), failed(AuthFault::ServerProof)),
        (None, Some(OURS), failed(AuthFault::NoSecretThere)),
    ] {
        let mut world = world(servers, clients);
        let start = world.now;
        let token = world.submit(lookup("k"));
        world.run_until_idle();
        let Err(SessionError::Refused { failure, .. }) = world.result(token) else {
            panic!("{:?}", world.result(token));
        };
        assert_eq!(failure, &expected);
        assert!(world.now.since_us(start) < 10_000, "it took {} us", world.now.since_us(start));
    }
}

#[test]
fn cluster_with_changed_secret_is_not_used() {
    let mut world = world(Some(OURS), Some(OURS));
    let token = world.submit(append("k", "v"));
    world.run_until_idle();
    assert!(matches!(world.result(token), Ok(Reply::Done { .. })));
    world.cluster.greetings.guard = Some(Guard::new(&secret(ANOTHER), Nonces::new([3; 32])));
    world.reset_all();
    world.run_ms(1);
    let token = world.submit(append("k", "v"));
    world.run_until_idle();
    assert!(matches!(world.result(token), Err(SessionError::Refused { .. })), "{:?}", world.result(token));
    assert_eq!(world.cluster.count("k", "v"), 1);
    world.cluster.greetings.guard = Some(Guard::new(&secret(OURS), Nonces::new([4; 32])));
    let token = world.submit(append("k", "v"));
    world.run_until_idle();
    assert!(matches!(world.result(token), Ok(Reply::Done { .. })), "{:?}", world.result(token));
    assert_eq!(world.cluster.count("k", "v"), 2);
}

#[test]
fn authentication_errors_name_remedy() {
    let mut world = world(Some(OURS), None);
    let token = world.submit(lookup("k"));
    world.run_until_idle();
    let Err(error) = world.result(token) else { panic!("it was served") };
    assert!(error.to_string().contains("--secret-file"), "{error}");
    let trouble = AttemptFailure::Answered { failure: Failure::AuthRequired };
    assert!(trouble.to_string().contains("ZEROHOP_SECRET_FILE"));
}
