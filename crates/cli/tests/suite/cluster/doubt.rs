//! Writes of which nobody can say whether they are done.

use crate::cluster::nodes::Cluster;

#[test]
fn a_write_whose_outcome_cannot_be_had_ends_the_program_with_a_code_of_its_own() {
    let folder = crate::support::folder();
    let cluster = Cluster::start(folder.path(), 3);
    cluster.wait_until_whole();
    cluster.json(&[
        "keyspace",
        "create",
        "strict",
        "--replicas",
        "3",
        "--min-in-sync",
        "3",
        "--partitions",
        "16",
    ]);
    cluster.wait_until_whole();
    // Those that would have to acknowledge do not, and more than half of the managers say nothing of it.
    cluster.pause(1, true);
    cluster.pause(2, true);
    let mut in_doubt = None;
    for key in 0..32 {
        let key = format!("k{key}");
        let (code, out, told) =
            cluster.run(&["kv", "insert", &key, "v", "--keyspace", "strict", "--timeout", "1s"]);
        assert!(out.is_empty() && !told.is_empty(), "{out}");
        match code {
            // Its primary is paused, and it was never sent.
            3 => assert!(told.contains("nothing was changed"), "{told}"),
            4 => {
                assert!(
                    told.contains("may or may not be done") && told.contains("look the record up"),
                    "{told}"
                );
                in_doubt = Some(key);
                break;
            }
            other => panic!("{other}: {told}"),
        }
    }
    let key = in_doubt.expect("one of the keys is of the node that goes on");
    cluster.pause(1, false);
    cluster.pause(2, false);
    cluster.wait_until_whole();
    let (code, out, told) = cluster.run(&["kv", "lookup", &key, "--keyspace", "strict"]);
    assert!((code, out.as_str()) == (0, "v") || code == 1, "{code}: {out} {told}");
}
