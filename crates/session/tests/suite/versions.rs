//! Clusters of programs that speak another version of the protocol.

use zerohop_session::SessionError;
use zerohop_wire::Failure;
use zerohop_wire::limits::VERSION_MIN;

use crate::support::server::FakeCluster;
use crate::support::{SessionWorld, lookup};

#[test]
fn server_of_another_version_ends_request_at_once_and_both_versions_are_named() {
    let older = VERSION_MIN - 1;
    let expected = Failure::UnsupportedVersion { min: older, max: older };
    for refuses in [true, false] {
        let mut cluster = FakeCluster::new(2, 1);
        match refuses {
            true => cluster.greetings.refusal = Some(expected.clone()),
            // It would go on with a version that this program does not speak.
            false => cluster.greetings.version = older,
        }
        let mut world = SessionWorld::new(1, cluster, |_| {});
        let start = world.now;
        let token = world.submit(lookup("k"));
        world.run_until_idle();
        let Err(error @ SessionError::Refused { failure, .. }) = world.result(token) else {
            panic!("{:?}", world.result(token));
        };
        assert_eq!(failure, &expected);
        let text = error.to_string();
        assert!(text.contains("speaks version 1") && text.contains("this program version 2"), "{text}");
        assert!(world.now.since_us(start) < 10_000, "it took {} us", world.now.since_us(start));
    }
}
