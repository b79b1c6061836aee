//! `INFO`.

use std::fmt::Write;

use zerohop_wire::ids::KeyspaceId;

use crate::{Args, ConnectionWorld, ServerInfo};

/// The version of Redis whose commands these are. Clients derive from it what they may send.
pub(super) const REDIS_VERSION: &str = "7.0.15";

const SECTIONS: [&str; 9] =
    ["server", "clients", "memory", "persistence", "stats", "replication", "cpu", "cluster", "keyspace"];

/// The requested sections; all if none is named.
pub(super) fn text(keyspace: KeyspaceId, args: Args<'_>, world: &dyn ConnectionWorld) -> String {
    let server = world.server();
    let all = ["default", "all", "everything"];
    let wants_all =
        args.len() == 1 || (1..args.len()).any(|place| all.iter().any(|word| args.is(place, word)));
    let requested = |section: &str| wants_all || (1..args.len()).any(|place| args.is(place, section));
    let mut text = String::new();
    for section in SECTIONS.into_iter().filter(|section| requested(section)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let (first, rest) = section.split_at(1);
        text.push_str(&format!("# {}{rest}\r\n", first.to_ascii_uppercase()));
        for (name, value) in fields(section, &server, keyspace, world) {
            // Writing to a String does not fail.
            let _ = write!(text, "{name}:{value}\r\n");
        }
    }
    text
}

fn fields(
    section: &str,
    server: &ServerInfo,
    keyspace: KeyspaceId,
    world: &dyn ConnectionWorld,
) -> Vec<(String, String)> {
    let own = |pairs: &[(&str, String)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    match section {
        "server" => own(&[
            ("redis_version", REDIS_VERSION.to_owned()),
            ("zerohop_version", server.version.clone()),
            ("redis_mode", "cluster".to_owned()),
            ("os", server.os.clone()),
            ("arch_bits", usize::BITS.to_string()),
            ("process_id", server.process_id.to_string()),
            ("run_id", server.run_id.clone()),
            ("tcp_port", server.port.to_string()),
            ("server_time_usec", world.now_us().to_string()),
            ("uptime_in_seconds", server.uptime_s.to_string()),
            ("uptime_in_days", (server.uptime_s / 86_400).to_string()),
        ]),
        "clients" => own(&[
            ("connected_clients", server.connected_clients.to_string()),
            ("blocked_clients", server.blocked_clients.to_string()),
            ("maxclients", server.clients_max.to_string()),
        ]),
        "memory" => own(&[("used_memory", server.used_memory_bytes.to_string())]),
        "persistence" => own(&[("loading", "0".to_owned())]),
        "stats" => own(&[
            ("total_connections_received", server.total_connections.to_string()),
            ("total_commands_processed", server.total_commands.to_string()),
            ("total_net_input_bytes", server.received_bytes.to_string()),
            ("total_net_output_bytes", server.sent_bytes.to_string()),
        ]),
        "replication" => own(&[("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        "cpu" => Vec::new(),
        "cluster" => own(&[("cluster_enabled", "1".to_owned())]),
        _ => match world.own_keys(keyspace) {
            0 => Vec::new(),
            keys => own(&[
                // Records that expire are not counted apart.
                ("db0", format!("keys={keys},expires=0,avg_ttl=0")),
                ("zerohop_keyspace", world.keyspace_name(keyspace)),
            ]),
        },
    }
}
