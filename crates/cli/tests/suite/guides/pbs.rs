//! The guide for PBS, with one host and a substitute for `pbsdsh` that also runs the command in the
//! job's environment.

use crate::guides::block::commands;
use crate::guides::root;
use crate::guides::shell::Shell;

#[test]
fn pbs_command_starts_nodes_on_hosts_of_its_file() {
    let guide = std::fs::read_to_string(root().join("docs/guide/batch.md")).unwrap();
    let (_, section) = guide.split_once("\n## PBS\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let found = commands(section);
    let [start] = &found[..] else { panic!("one command: {found:?}") };
    let folder = crate::support::folder();
    let mut shell = Shell::start(folder.path());
    let mut ok = |command: &str| {
        let (printed, code) = shell.run(command);
        assert_eq!(code, 0, "`{command}`: {printed:#?}");
        // The node in the background writes its log to the same terminal, at any time.
        printed.into_iter().filter(|line| !line.contains("  INFO ")).collect::<Vec<_>>()
    };
    ok("mkdir bin && PATH=$PWD/bin:$PATH");
    ok("printf '#!/bin/sh\\n[ \"$1\" = -- ] && shift\\nexec \"$@\"\\n' > bin/pbsdsh && chmod +x bin/pbsdsh");
    ok(
        "hostname > hosts && export PBS_NODEFILE=$PWD/hosts PBS_JOBID=guide-$$.test ZEROHOP_ENDPOINT=$(hostname):7400",
    );
    ok("zerohop secret new \"$HOME/zerohop-secret\"");
    ok(&start.text);
    ok("node=$!; export ZEROHOP_SECRET_FILE=$HOME/zerohop-secret");
    // As long as the node runs, it may still become ready.
    ok("until zerohop kv insert colour blue; do kill -0 $node || break; sleep 0.2; done");
    assert_eq!(ok("zerohop kv lookup colour"), ["blue"]);
    ok("test -d /tmp/zerohop-$PBS_JOBID");
    ok("kill $node; wait $node; rm -r /tmp/zerohop-$PBS_JOBID");
}
