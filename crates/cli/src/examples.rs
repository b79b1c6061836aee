//! Examples of each command, for its help and its manual page.

/// The examples of a command: its name without `zerohop`, and command lines.
type CommandExamples = (&'static str, &'static [&'static str]);

/// A command without subcommands has at least one example; the test below parses all of them.
const EXAMPLES: &[CommandExamples] = &[
    (
        "",
        &[
            "zerohop up",
            "zerohop kv insert hello world",
            "zerohop kv lookup hello",
            "zerohop --endpoint login:7400 --json status",
        ],
    ),
    ("up", &["zerohop up", "zerohop up --nodes 1 --data /tmp/store --port 7500", "zerohop up --memory"]),
    (
        "node",
        &[
            "zerohop node --data /data/zerohop --hosts 'node[1-3]:7400' --secret-file cluster-secret",
            "zerohop node --data /data/zerohop --join 10.0.0.1:7400",
            "zerohop node --memory --scheduler",
        ],
    ),
    ("node list", &["zerohop node list", "zerohop node list --json"]),
    ("node drain", &["zerohop node drain 4", "zerohop node drain 4 --wait 2h"]),
    ("node up", &["zerohop node up 4"]),
    ("node remove", &["zerohop node remove 4"]),
    ("node managers", &["zerohop node managers", "zerohop node managers --set 1,2,5"]),
    ("s3", &["zerohop s3", "zerohop s3 --listen 127.0.0.1:9100 --keyspace pictures --endpoint login:7400"]),
    ("status", &["zerohop status", "zerohop status --watch", "zerohop status --wait whole --timeout 10m"]),
    ("top", &["zerohop top", "zerohop top --once --interval 500ms --json"]),
    ("doctor", &["zerohop doctor", "zerohop doctor --machine --data /data/zerohop"]),
    (
        "keyspace create",
        &[
            "zerohop keyspace create results --replicas 3 --durability sync",
            "zerohop keyspace create scratch --replicas 1 --durability memory",
            "zerohop keyspace create events --ordered",
        ],
    ),
    ("keyspace alter", &["zerohop keyspace alter results --replicas 2 --min-in-sync 2"]),
    ("keyspace show", &["zerohop keyspace show results"]),
    ("keyspace list", &["zerohop keyspace list"]),
    ("keyspace split", &["zerohop keyspace split results"]),
    ("keyspace drop", &["zerohop keyspace drop scratch --yes"]),
    ("partition list", &["zerohop partition list results"]),
    (
        "partition move",
        &["zerohop partition move results/17 --to 4", "zerohop partition move results/17 --to 4:7"],
    ),
    ("partition release", &["zerohop partition release results/17"]),
    ("region list", &["zerohop region list events"]),
    ("region split", &["zerohop region split events --at 2026-12,2027-01"]),
    ("partition split", &["zerohop partition split results"]),
    (
        "recover",
        &[
            "zerohop recover",
            "zerohop recover --accept-loss results/17",
            "zerohop recover --accept-loss --all-lost",
        ],
    ),
    ("recover acknowledge", &["zerohop recover acknowledge scratch"]),
    ("watch", &["zerohop watch", "zerohop watch -k results run- --cursor position --json"]),
    ("watch list", &["zerohop watch list", "zerohop watch list -k results --json"]),
    (
        "kv insert",
        &[
            "zerohop kv insert ship Nautilus",
            "zerohop kv insert -k results run-1 --file run-1.json --if-absent",
            "zerohop kv insert session token --ttl 1h",
        ],
    ),
    ("kv lookup", &["zerohop kv lookup ship", "zerohop kv get -k results run-1 --json"]),
    ("kv remove", &["zerohop kv remove ship", "zerohop kv rm -k results run-1"]),
    ("kv take", &["zerohop kv take job-17"]),
    ("kv append", &["zerohop kv append crew Nemo Aronnax"]),
    ("kv extend", &["zerohop kv extend log ', one more line'"]),
    ("kv cas", &["zerohop kv cas leader node-2 --expect node-1", "zerohop kv cas lock me --expect-absent"]),
    ("kv wait", &["zerohop kv wait result --timeout 10m"]),
    ("kv incr", &["zerohop kv incr visitors", "zerohop kv incr balance -5"]),
    ("kv transform", &["zerohop kv transform counters add 5 --type u64 --at 16"]),
    (
        "kv scan",
        &[
            "zerohop kv scan tmp:",
            "zerohop kv ls -k results --limit 100",
            "zerohop kv scan -k events --from 2026-11 --to 2026-12 --values",
            "zerohop kv scan -k events --reverse --limit 1",
        ],
    ),
    (
        "txn",
        &[
            "printf 'incr anna -10\\nincr ben 10\\n' | zerohop txn",
            "printf 'check anna absent\\ninsert anna new\\n' | zerohop txn --json",
            "zerohop txn < operations.txt",
        ],
    ),
    ("blob put", &["zerohop blob put backup disk.img", "zerohop blob put backup disk.img --replace"]),
    ("blob get", &["zerohop blob get backup disk.img"]),
    ("blob read", &["zerohop blob read backup --at 512 --length 512"]),
    ("blob write", &["zerohop blob write backup boot --at 512"]),
    ("blob extend", &["zerohop blob extend log --file today.log"]),
    ("blob truncate", &["zerohop blob truncate backup 1048576"]),
    ("blob stat", &["zerohop blob stat backup --json"]),
    ("blob rm", &["zerohop blob rm backup"]),
    ("blob ls", &["zerohop blob ls logs/ --limit 100"]),
    ("blob transform", &["zerohop blob transform counters add 5 --type u64 --at 16"]),
    ("backup", &["zerohop backup monday", "zerohop backup tuesday --since monday"]),
    ("restore", &["zerohop restore tuesday", "zerohop restore monday --keyspace default --as mondays"]),
    ("verify", &["zerohop verify", "zerohop verify monday"]),
    ("bench kv", &["zerohop bench kv --clients 16 --ops 1000000 --value-bytes 1024"]),
    (
        "bench ycsb",
        &["zerohop bench ycsb a --clients 16", "zerohop bench ycsb e -k ordered --records 1000000"],
    ),
    ("bench txn", &["zerohop bench txn --clients 16 --accounts 1000"]),
    ("object mb", &["zerohop object mb pictures"]),
    ("object rb", &["zerohop object rb pictures"]),
    ("object ls", &["zerohop object ls", "zerohop object ls pictures/2026/ --recursive"]),
    (
        "object put",
        &[
            "zerohop object put pictures/2026/one.png one.png --content-type image/png",
            "zerohop object put pictures/lock --if-absent",
        ],
    ),
    ("object get", &["zerohop object get pictures/2026/one.png one.png"]),
    ("object stat", &["zerohop object stat pictures/2026/one.png --json"]),
    ("object cp", &["zerohop object cp pictures/2026/one.png archive/one.png"]),
    (
        "object rm",
        &["zerohop object rm pictures/2026/one.png", "zerohop object rm pictures/2026/ --recursive"],
    ),
    ("object check", &["zerohop object check"]),
    ("log alter", &["zerohop log alter telemetry --partitions 8 --retention 30d"]),
    ("log create", &["zerohop log create telemetry --partitions 4 --retention 7d"]),
    ("log list", &["zerohop log list", "zerohop log list --metrics"]),
    ("log info", &["zerohop log info telemetry"]),
    (
        "log append",
        &[
            "zerohop log append telemetry 'step 1 energy 4.2' --key run7",
            "zerohop log append telemetry --key run7 < run7.txt",
        ],
    ),
    (
        "log read",
        &[
            "zerohop log read telemetry --time 10m",
            "zerohop log read telemetry --partition 0 --from 100 --json",
        ],
    ),
    ("log tail", &["zerohop log tail telemetry"]),
    ("log pop", &["zerohop log pop telemetry --cursor steering --wait 1m"]),
    ("log groups", &["zerohop log groups telemetry"]),
    (
        "log commit",
        &[
            "zerohop log commit telemetry watchers --to first",
            "zerohop log commit telemetry watchers --to 42 --partition 0",
        ],
    ),
    ("log trim", &["zerohop log trim telemetry", "zerohop log trim telemetry --older-than 7d"]),
    ("log drop", &["zerohop log drop telemetry"]),
    ("queue create", &["zerohop queue create jobs --partitions 4 --lease 2m --tries 5"]),
    ("queue list", &["zerohop queue list", "zerohop queue list --metrics"]),
    ("queue stats", &["zerohop queue stats jobs"]),
    (
        "queue push",
        &[
            "zerohop queue push jobs 'render 1' 'render 2' --group film7",
            "zerohop queue push jobs 'render 3' --name film7-3 --delay 10m",
            "zerohop queue push jobs < jobs.txt",
        ],
    ),
    (
        "queue pop",
        &["zerohop queue pop jobs --wait 1m", "zerohop queue pop jobs --limit 10 --lease 5m --json"],
    ),
    ("queue ack", &["zerohop queue ack jobs \"$receipt\""]),
    ("queue release", &["zerohop queue release jobs \"$receipt\" --delay 30s"]),
    ("queue extend", &["receipt=$(zerohop queue extend jobs \"$receipt\" --lease 5m)"]),
    ("queue dead", &["zerohop queue dead jobs --json"]),
    ("queue redrive", &["zerohop queue redrive jobs"]),
    ("queue purge", &["zerohop queue purge jobs --yes"]),
    ("queue drop", &["zerohop queue drop jobs"]),
    ("bench blob", &["zerohop bench blob --blobs 64 --bytes 16MiB"]),
    ("folder new-cluster", &["zerohop folder new-cluster copy-of-data"]),
    ("secret new", &["zerohop secret new ~/.config/zerohop/secret"]),
    (
        "secret bearer",
        &["curl -H \"Authorization: Bearer $(zerohop secret bearer)\" http://127.0.0.1:7400/metrics"],
    ),
    ("tls new", &["zerohop tls new tls --hosts 'node[1-3]'"]),
    ("tls add", &["zerohop tls add tls node4 --hosts node4"]),
    (
        "token new",
        &[
            "zerohop token new robot --keyspace results=read,write --file robot.token",
            "zerohop token new guest --all read --expires 12h",
        ],
    ),
    ("token list", &["zerohop token list"]),
    ("token revoke", &["zerohop token revoke robot"]),
    ("demo", &["zerohop demo", "zerohop demo ~/papers"]),
    ("sim", &["zerohop sim --seeds 100", "zerohop sim --seed 7 --scenario disks --shrink"]),
    ("completions", &["zerohop completions bash > ~/.local/share/bash-completion/completions/zerohop"]),
    ("man", &["zerohop man --dir ~/.local/share/man/man1"]),
];

/// The examples of a command, whose name has no `zerohop` before it.
pub(crate) fn of(name: &str) -> &'static [&'static str] {
    EXAMPLES.iter().find(|(command, _)| *command == name).map_or(&[], |(_, lines)| lines)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Command;

    use super::*;
    use crate::arguments::command;
    use crate::global_options::behind_the_command;

    /// The names of all commands without subcommands.
    fn leaves(command: &Command, name: &str, out: &mut Vec<String>) {
        let below: Vec<&Command> = command.get_subcommands().filter(|one| one.get_name() != "help").collect();
        if below.is_empty() || !command.is_subcommand_required_set() {
            out.push(name.to_owned());
        }
        for one in below {
            leaves(one, format!("{name} {}", one.get_name()).trim_start(), out);
        }
    }

    /// The arguments of the part of a line that runs the program, without quotes and redirections.
    fn words(line: &str) -> Vec<OsString> {
        let from = line.find("zerohop ").unwrap();
        let part = line[from..].split([')', '<', '>', '|']).next().unwrap();
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for one in part.trim().chars() {
            match one {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                one => words.last_mut().unwrap().push(one),
            }
        }
        words.into_iter().map(OsString::from).collect()
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        let mut names = Vec::new();
        leaves(&command(), "", &mut names);
        let without: Vec<&String> = names.iter().filter(|name| of(name).is_empty()).collect();
        assert!(without.is_empty(), "give these commands examples: {without:?}");
        for (name, lines) in EXAMPLES {
            assert!(name.is_empty() || names.iter().any(|one| one == name), "there is no command {name}");
            for line in *lines {
                let given = behind_the_command(&command(), words(line));
                if let Err(error) = command().try_get_matches_from(given) {
                    panic!("{line}: {error}");
                }
                // An alias is another way to write the command.
                let group = name.split(' ').next().unwrap();
                assert!(line.contains(&format!("zerohop {group}")), "{line} is of another command");
            }
        }
    }
}
