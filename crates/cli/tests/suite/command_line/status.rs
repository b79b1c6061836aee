//! `zerohop status`, whose JSON is a contract.

use serde_json::{Value, json};

use crate::support::serving::ServingProgram;

#[test]
fn status_json_has_the_documented_fields() {
    let folder = crate::support::folder();
    let cluster = ServingProgram::up(&["--instances", "2", "--data", folder.path().to_str().unwrap()]);
    let status = cluster.json(&["status"]);
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1);
    let node = &nodes[0];
    assert_eq!((&node["id"], &node["state"]), (&json!(1), &json!("up")));
    assert_eq!(node["pid"], cluster.ready["nodes"][0]["pid"]);
    assert_eq!(node["manager"], cluster.endpoint());
    let instances = node["instances"].as_array().unwrap();
    assert_eq!(instances.len(), 2);
    for (instance, said) in instances.iter().zip(cluster.ready["nodes"][0]["instances"].as_array().unwrap()) {
        assert_eq!((&instance["id"], &instance["addr"]), (&said["id"], &said["addr"]));
        assert!(instance["addr"].as_str().unwrap().starts_with("127.0.0.1:"));
    }
    assert_eq!(node["troubles"], json!([]));
    // A standalone node decides by itself.
    assert_eq!(node["in_control"], true);
    let view = &status["view"];
    let managers = ["leader", "managers", "answering"].map(|field| &view[field]);
    assert_eq!((json!(managers), &view["quorum"]), (json!([1, 1, 1]), &json!(true)));
    let keyspaces = status["keyspaces"].as_array().unwrap();
    assert_eq!(keyspaces.len(), 1);
    let fields = ["name", "replicas", "min_in_sync", "durability", "partitions", "hash"];
    let default: Vec<&Value> = fields.iter().map(|field| &keyspaces[0][*field]).collect();
    assert_eq!(json!(default), json!(["default", 1, 1, "interval:100ms", 256, "crc16"]));

    let text = cluster.ok(&["status"]);
    assert!(text.contains(cluster.endpoint()) && text.contains("keyspace default: interval:100ms"), "{text}");
    // An instance reports the whole cluster too.
    let of_instance = instances[1]["addr"].as_str().unwrap();
    assert_eq!(cluster.json(&["status", "--endpoint", of_instance])["keyspaces"], status["keyspaces"]);
}
