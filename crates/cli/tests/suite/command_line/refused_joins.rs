//! A node that joins gets an error at once if the cluster that it names can never admit it.

use std::process::{Command, Output};

use crate::support::ports::ports;
use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};

/// Starts a new node in memory, which must end by itself.
fn join(listen: &str, to: &str) -> Output {
    joining(listen, to).output().unwrap()
}

fn joining(listen: &str, to: &str) -> Command {
    zerohop(&["node", "--memory", "--instances", "1", "--listen", listen, "--join", to])
}

fn is_refused(output: &Output, words: &[&str]) {
    assert_eq!((code(output), stdout(output).as_str()), (3, ""), "{output:?}");
    let error = stderr(output);
    assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
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
    is_refused(
        &join(anywhere, instance),
        &[instance, "port of instance", &format!("manager of its node, {manager}")],
    );
}

#[test]
fn join_of_instance_names_the_manager_of_its_node() {
    let folder = crate::support::folder();
    let secret = folder.path().join("secret");
    assert!(zerohop(&["secret", "new"]).arg(&secret).status().unwrap().success());
    for secret in [None, Some(secret.as_path())] {
        let with_secret = |mut command: Command| {
            let _ = secret.map(|secret| command.env("ZEROHOP_SECRET_FILE", secret));
            command
        };
        let up = zerohop(&["up", "--nodes", "2", "--port", "0", "--json", "--memory", "--instances", "2"]);
        let cluster = ServingProgram::start(with_secret(up));
        for node in cluster.ready["nodes"].as_array().unwrap() {
            let manager = node["manager"].as_str().unwrap();
            for instance in node["instances"].as_array().unwrap() {
                let addr = instance["addr"].as_str().unwrap();
                let output = with_secret(joining("127.0.0.1:0", addr)).output().unwrap();
                let name = format!("manager of its node, {manager}");
                is_refused(&output, &[addr, &format!("port of instance {}", instance["id"]), &name]);
            }
        }
    }
}
