//! All nodes are restarted in turn, cleanly, under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::cluster::loads::{ClientLoad, check, connect};
use crate::cluster::nodes::NodeCluster;
use crate::cluster::redis::Redis;
use crate::support::wait_for;

/// Restarts of each node; `ZEROHOP_ROLLS` overrides it.
const ROLLS: u64 = 2;

#[tokio::test]
async fn rolling_restart_hands_primaries_over_and_fails_no_request() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.wait_until_complete();
    let load = ClientLoad::begin(&cluster.endpoints(), 4);
    let rolls = std::env::var("ZEROHOP_ROLLS").ok().and_then(|rolls| rolls.parse().ok()).unwrap_or(ROLLS);
    let mut handed_over = 0;
    for roll in 0..rolls {
        for node in 0..3 {
            let began = Instant::now();
            cluster.stop(node);
            let stopped = began.elapsed();
            // The node asks others to take over before it ends. Whether they had enough time
            // depends on the machine.
            assert!(cluster.log(node).contains("handing over to the other nodes"));
            handed_over += u64::from(cluster.status()["groups"]["down"] == 0);
            cluster.start_again(node);
            cluster.wait_until_complete();
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

/// Simple Redis clients, one at each node, that write keys in sequence. A client whose node ends
/// continues at the next node.
struct Writers {
    ends: Arc<AtomicBool>,
    written: Arc<[AtomicUsize; 3]>,
    tasks: Vec<JoinHandle<Vec<String>>>,
}

/// Keys of each client: enough for some at every node.
const KEYS: usize = 200;

impl Writers {
    fn begin(cluster: &NodeCluster) -> Writers {
        let ends = Arc::new(AtomicBool::new(false));
        let written: Arc<[AtomicUsize; 3]> = Arc::default();
        let ports: Vec<String> = (0..3).map(|node| cluster.instance(node)).collect();
        let task = |me: usize| {
            let (ends, written, ports) = (Arc::clone(&ends), Arc::clone(&written), ports.clone());
            std::thread::spawn(move || {
                let (mut refused, mut at, mut client) = (Vec::new(), me, None);
                for number in 0_usize.. {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let redis = match &mut client {
                        Some(redis) => redis,
                        empty => match Redis::try_connect(&ports[at]) {
                            Ok(redis) => empty.insert(redis),
                            Err(_) => {
                                at = (at + 1) % ports.len();
                                continue;
                            }
                        },
                    };
                    match redis.try_command(&format!("SET rolled-{me}-{} {number}", number % KEYS)) {
                        Ok(reply) if reply == "OK" => drop(written[me].fetch_add(1, Ordering::Relaxed)),
                        Ok(reply) => refused.push(reply),
                        Err(_) => client = None,
                    }
                }
                refused
            })
        };
        let tasks = (0..3).map(task).collect();
        Writers { ends, written, tasks }
    }

    /// Waits until each client has written all of its keys once more.
    fn wait_for_progress(&self) {
        let count = || self.written.iter().map(|one| one.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let before = count();
        wait_for("all write", count, |now| {
            now.iter().zip(&before).all(|(now, before)| *now >= before + KEYS)
        });
    }

    /// Stops the clients; returns their error replies.
    fn end(self) -> Vec<String> {
        self.ends.store(true, Ordering::Relaxed);
        self.tasks.into_iter().flat_map(|task| task.join().unwrap()).collect()
    }
}

#[test]
fn rolling_restart_leaves_no_redis_command_in_doubt() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.wait_until_complete();
    let writers = Writers::begin(&cluster);
    for node in 0..3 {
        writers.wait_for_progress();
        cluster.stop(node);
        writers.wait_for_progress();
        cluster.start_again(node);
        cluster.wait_until_complete();
    }
    writers.wait_for_progress();
    assert_eq!(writers.end(), [""; 0]);
    cluster.stop_in_order();
}
