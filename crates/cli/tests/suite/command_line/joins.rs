//! A node that joins is told at once if what it names can never take it in.

use std::process::Output;

use crate::support::ports::ports;
use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};

/// Starts a new node in memory, which must end by itself.
fn join(listen: &str, to: &str) -> Output {
    zerohop(&["node", "--memory", "--instances", "1", "--listen", listen, "--join", to]).output().unwrap()
}

fn is_refused(output: &Output, words: &[&str]) {
    assert_eq!((code(output), stdout(output).as_str()), (3, ""), "{output:?}");
    let told = stderr(output);
    assert!(words.iter().all(|word| told.contains(word)), "{words:?}: {told}");
}

#[test]
fn join_of_itself_or_standalone_node_is_refused_with_reason() {
    let own = format!("127.0.0.1:{}", ports(2));
    is_refused(&join(&own, &own), &["only this node's own address", &own, "--hosts"]);

    let alone = ServingProgram::in_memory();
    let manager = alone.endpoint().to_owned();
    let anywhere = "127.0.0.1:0";
    is_refused(&join(anywhere, &manager), &[&manager, "standalone node", "--hosts"]);
    let instance = alone.ready["nodes"][0]["instances"][0]["addr"].as_str().unwrap();
    is_refused(&join(anywhere, instance), &[instance, "port of an instance", "manager"]);
}
