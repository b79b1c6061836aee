//! A node that is stopped from a terminal, or whose terminal is closed, hands its primaries over before it ends.

use rustix::process::Signal;

use crate::cluster::nodes::NodeCluster;

#[test]
fn ctrl_c_sigterm_and_sighup_hand_over_primaries_of_node() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.wait_until_complete();
    for (node, signal) in [Signal::INT, Signal::TERM, Signal::HUP].into_iter().enumerate() {
        let handed_over = "handing over to the other nodes";
        assert!(!cluster.log(node).contains(handed_over));
        cluster.stop_with(node, signal);
        let log = cluster.log(node);
        assert!(log.contains(handed_over), "{signal:?}: {log}");
        cluster.start_again(node);
        cluster.wait_until_complete();
    }
    // The signal with which `zerohop up` stops all its nodes at once.
    let before = cluster.log(2).len();
    cluster.stop_with(2, Signal::QUIT);
    let log = cluster.log(2)[before..].to_owned();
    assert!(log.contains("stopping") && !log.contains("handing over"), "{log}");
    cluster.stop_in_order();
}
