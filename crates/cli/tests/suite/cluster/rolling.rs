//! All nodes are restarted in turn, in order, under load.

use std::time::Instant;

use crate::cluster::loads::{Load, check, connect};
use crate::cluster::nodes::Cluster;

/// How often each is restarted; `ZEROHOP_ROLLS` says otherwise.
const ROLLS: u64 = 2;

#[tokio::test]
async fn nodes_that_are_restarted_in_turn_fail_nothing_and_hand_over_what_they_serve() {
    let folder = crate::support::folder();
    let mut cluster = Cluster::start(folder.path(), 3);
    cluster.wait_until_whole();
    let load = Load::begin(&cluster.endpoints(), 4);
    let rolls = std::env::var("ZEROHOP_ROLLS").ok().and_then(|rolls| rolls.parse().ok()).unwrap_or(ROLLS);
    let mut handed_over = 0;
    for roll in 0..rolls {
        for node in 0..3 {
            let began = Instant::now();
            cluster.stop(node);
            let stopped = began.elapsed();
            // Others are asked to take over before it ends. Whether they had the time for it is up to the machine.
            assert!(cluster.log(node).contains("handing over to the other nodes"));
            handed_over += u64::from(cluster.status()["groups"]["down"] == 0);
            cluster.start_again(node);
            cluster.wait_until_whole();
            eprintln!(
                "round {roll}, node {node}: stopped after {stopped:?}, whole again after {:?}",
                began.elapsed()
            );
        }
    }
    eprintln!("{handed_over} of {} handed over in time", rolls * 3);
    let written = load.end();
    check(&connect(&cluster.endpoints()).await, &written).await;
    cluster.stop_in_order();
}
