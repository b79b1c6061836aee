//! Tokens: the permissions of each, the errors for everything else, and that a revoked token has no
//! permissions.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use zerohop_client::{
    BlockingClient, BlockingHandle, Client, ClientOptions, Failure, WatchEvent, WatchOptions, read_token,
};
use zerohop_wire::{AuthFault, Permission};

use crate::command_line::secrets::{new_secret, run_with, up};
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};
use crate::support::{GIVE_UP_AFTER, wait_for};

struct TokenBench {
    folder: crate::support::folder::TestFolder,
    secret: PathBuf,
    cluster: ServingProgram,
}

impl TokenBench {
    fn new(arguments: &[&str]) -> TokenBench {
        let folder = crate::support::folder();
        let secret = new_secret(folder.path(), "secret");
        let cluster = up(&secret, arguments);
        TokenBench { folder, secret, cluster }
    }

    /// Runs the program with the secret; it must succeed.
    fn admin(&self, arguments: &[&str]) -> String {
        let done = run_with(&self.cluster, Some(&self.secret), arguments);
        assert_eq!(code(&done), 0, "{done:?}");
        stdout(&done)
    }

    /// Makes a token.
    fn token(&self, name: &str, permits: &[&str]) -> PathBuf {
        let path = self.folder.path().join(name);
        let arguments = [&["token", "new", name, "--file", path.to_str().unwrap()], permits].concat();
        self.admin(&arguments);
        path
    }

    /// Runs the program with a token.
    fn with(&self, token: &Path, arguments: &[&str]) -> Output {
        let mut command = zerohop(arguments);
        command.env("ZEROHOP_ENDPOINT", self.cluster.endpoint()).env("ZEROHOP_TOKEN_FILE", token);
        output(command, b"")
    }

    fn refused(&self, token: &Path, arguments: &[&str]) -> String {
        let refused = self.with(token, arguments);
        assert_eq!(code(&refused), 3, "{refused:?}");
        stderr(&refused)
    }

    fn done(&self, token: &Path, arguments: &[&str]) -> String {
        let done = self.with(token, arguments);
        assert_eq!(code(&done), 0, "{done:?}");
        stdout(&done)
    }

    fn instance(&self) -> &str {
        self.cluster.ready["nodes"][0]["instances"][0]["addr"].as_str().unwrap()
    }

    /// Sends lines to an instance as a Redis client, and returns all that it answers.
    fn redis(&self, lines: &[&str]) -> String {
        let mut stream = TcpStream::connect(self.instance()).unwrap();
        stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
        stream.write_all((lines.join("\r\n") + "\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// The exit code, the word and the sentence are the same for records, objects, logs, queues and benchmarks.
#[test]
fn missing_permission_is_forbidden_and_names_the_keyspace() {
    let bench = TokenBench::new(&["--nodes", "1"]);
    for arguments in
        [&["object", "mb", "papers"][..], &["log", "create", "events"], &["queue", "create", "jobs"]]
    {
        bench.admin(arguments);
    }
    let reader = bench.token("reader", &["--all", "read"]);
    for (arguments, keyspace) in [
        (&["object", "mb", "more"][..], "objects"),
        (&["object", "put", "papers/a", "/dev/null"], "objects"),
        (&["object", "rb", "papers"], "objects"),
        (&["log", "append", "events", "a"], "events"),
        (&["queue", "push", "jobs", "a"], "jobs"),
        (&["bench", "kv", "--ops", "1", "--clients", "1"], "default"),
        (&["bench", "txn", "--ops", "1", "--clients", "1"], "default"),
        (&["bench", "blob", "--ops", "1", "--clients", "1", "--blobs", "1", "--bytes", "4KiB"], "default"),
    ] {
        let refused = bench.with(&reader, &[arguments, &["--json"]].concat());
        assert_eq!(code(&refused), 3, "{arguments:?}: {refused:?}");
        let words = format!("`write` in keyspace \"{keyspace}");
        assert!(stderr(&refused).contains(&words), "{arguments:?}: {refused:?}");
        let printed: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!((&printed["done"], &printed["reason"]), (&false.into(), &"forbidden".into()), "{printed}");
        if let ["log" | "queue", ..] = arguments {
            assert_eq!(printed[arguments[0]], *keyspace, "{printed}");
        }
    }
    assert_eq!(bench.admin(&["object", "ls"]).lines().count(), 1, "a bucket is made or removed");
}

#[test]
fn token_permits_only_its_permissions_in_each_keyspace() {
    let bench = TokenBench::new(&["--nodes", "3"]);
    bench.admin(&["keyspace", "create", "papers"]);
    bench.admin(&["kv", "insert", "k", "v", "--keyspace", "papers"]);
    bench.admin(&["kv", "insert", "k", "v"]);
    let reader = bench.token("reader", &["--keyspace", "papers=read"]);
    let writer = bench.token("writer", &["--keyspace", "papers=write", "--keyspace", "default=read"]);
    let owner = bench.token("owner", &["--keyspace", "papers=admin"]);
    let everything = bench.token("everything", &["--all", "read,write,admin"]);
    let papers = ["--keyspace", "papers"];
    let lookup = [&["kv", "lookup", "k"], &papers[..]].concat();
    let insert = [&["kv", "insert", "k", "w"], &papers[..]].concat();

    assert_eq!(bench.done(&reader, &lookup), "v");
    let error = bench.refused(&reader, &insert);
    assert!(error.contains("`write` in keyspace"), "{error}");
    let error = bench.refused(&reader, &["kv", "lookup", "k"]);
    assert!(error.contains("`read` in keyspace"), "{error}");
    bench.done(&writer, &insert);
    assert!(bench.refused(&writer, &lookup).contains("`read`"));
    assert_eq!(bench.done(&writer, &["kv", "lookup", "k"]), "v");
    assert_eq!(bench.done(&reader, &lookup), "w");

    // At the manager: a keyspace needs its `admin` permission, the cluster its own.
    bench.done(&reader, &["status"]);
    for token in [&reader, &writer, &owner] {
        assert!(bench.refused(token, &["token", "list"]).contains("`admin` in all keyspaces"));
        assert!(bench.refused(token, &["keyspace", "create", "more"]).contains("`admin` in all"));
    }
    let alter = ["keyspace", "alter", "papers", "--replicas", "2"];
    assert!(bench.refused(&writer, &alter).contains("`admin` in keyspace \"papers\""));
    bench.done(&owner, &alter);
    assert!(bench.refused(&owner, &lookup).contains("`read`"));
    bench.done(&everything, &["keyspace", "create", "more"]);
    bench.done(&everything, &["kv", "insert", "k", "v", "--keyspace", "more"]);

    let insert = ["kv", "insert", "k", "v", "--keyspace", "papers"];
    assert!(bench.refused(&reader, &insert).contains("`write` in keyspace \"papers\""));
    let mut txn = zerohop(&["txn", "-k", "papers"]);
    txn.env("ZEROHOP_ENDPOINT", bench.cluster.endpoint()).env("ZEROHOP_TOKEN_FILE", &reader);
    let txn = output(txn, b"insert k v\n");
    assert!(code(&txn) == 3 && stderr(&txn).contains("`write` in keyspace \"papers\""), "{txn:?}");
    let top = bench.refused(&everything, &["top", "--once", "--interval", "100ms"]);
    assert!(top.contains("a token is not enough"), "{top}");

    let listed = bench.admin(&["token", "list"]);
    assert!(listed.contains("reader\t") && listed.contains("papers: read\n"), "{listed}");
    assert!(listed.contains("all keyspaces: read,write,admin"), "{listed}");
    let text = fs::read_to_string(&reader).unwrap();
    assert!(!listed.contains(&text[21..]), "the list contains a token");
}

#[test]
fn revoked_token_is_refused_even_on_open_connections() {
    let bench = TokenBench::new(&["--nodes", "2"]);
    let path = bench.token("robot", &["--all", "read"]);
    let token = Some(read_token(&path).unwrap());
    let client = BlockingClient::connect_with(
        &[bench.cluster.endpoint()],
        ClientOptions {
            token,
            deadline: GIVE_UP_AFTER,
            connect_deadline: GIVE_UP_AFTER,
            ..ClientOptions::default()
        },
    )
    .unwrap();
    let keyspace = client.keyspace("default").unwrap();
    let lookup = || keyspace.wait_for(keyspace.lookup_bytes("k"));
    assert_eq!(lookup().unwrap(), None);
    let error = keyspace.wait_for(keyspace.insert("k", "v")).unwrap_err();
    let Some(Failure::Forbidden { permission: Permission::Write, .. }) = error.failure() else {
        panic!("{error:?}");
    };
    bench.admin(&["token", "revoke", "robot"]);
    // Every node receives the map soon.
    let started = std::time::Instant::now();
    let error = loop {
        match lookup() {
            Ok(_) => assert!(started.elapsed() < GIVE_UP_AFTER, "it still works"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.failure(), Some(&Failure::AuthFailed { fault: AuthFault::Token }), "{error}");
    // Each command reports this error itself, and none says that no cluster answers. A command that
    // waited would say what for.
    for command in
        [&["kv", "lookup", "k"][..], &["kv", "insert", "k", "v"], &["status"], &["keyspace", "list"]]
    {
        let refusal = bench.refused(&path, command);
        assert!(
            refusal.contains("cannot be used: the token is unknown to this cluster, or was revoked"),
            "{refusal}"
        );
    }
    let token = || ClientOptions {
        token: Some(read_token(&path).unwrap()),
        deadline: GIVE_UP_AFTER,
        ..ClientOptions::default()
    };
    let error = BlockingClient::connect_with(&[bench.cluster.endpoint()], token()).unwrap_err();
    assert!(error.is_access(), "{error:?}");
    // A client with a map does not wait for a newer map, which it would never receive.
    let error = client.keyspace("made later").unwrap_err();
    assert!(error.is_access(), "{error:?}");
    let again = run_with(&bench.cluster, Some(&bench.secret), &["token", "revoke", "robot"]);
    assert!(code(&again) == 3 && stderr(&again).contains("no token \"robot\""), "{again:?}");
}

/// The requests of the watch would wait for 30 s.
#[tokio::test]
async fn watch_ends_soon_after_its_token_was_revoked() {
    let bench = TokenBench::new(&["--nodes", "1"]);
    bench.admin(&["keyspace", "alter", "default", "--history", "1h"]);
    let path = bench.token("reader", &["--all", "read"]);
    let options = ClientOptions { token: Some(read_token(&path).unwrap()), ..ClientOptions::default() };
    let client = Client::connect_with(&[bench.cluster.endpoint()], options).await.unwrap();
    let options = WatchOptions { mark_ms: 30_000, ..WatchOptions::default() };
    let mut watch = client.keyspace("default").await.unwrap().watch(options).unwrap();
    let first = watch.next().await.unwrap();
    assert!(matches!(first, WatchEvent::Mark(_)), "it has begun in each partition: {first:?}");
    let refused = tokio::spawn(async move {
        loop {
            if let Err(error) = watch.next().await {
                return error;
            }
        }
    });
    bench.admin(&["token", "revoke", "reader"]);
    let error = tokio::time::timeout(Duration::from_secs(20), refused).await.expect("it ends").unwrap();
    assert_eq!(error.failure(), Some(&Failure::AuthFailed { fault: AuthFault::Token }), "{error}");
}

/// A reader that does not ask for its changes is listed at all nodes, by the name of its token. The list is for administrators.
#[test]
fn watches_of_all_nodes_are_listed_with_their_token() {
    let bench = TokenBench::new(&["--nodes", "3"]);
    bench.admin(&["keyspace", "alter", "default", "--history", "1h"]);
    let path = bench.token("reader", &["--all", "read"]);
    let options = ClientOptions { token: Some(read_token(&path).unwrap()), ..ClientOptions::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reader = runtime.block_on(async {
        let client = Client::connect_with(&[bench.cluster.endpoint()], options).await.unwrap();
        let mut watch = client.keyspace("default").await.unwrap().watch(WatchOptions::default()).unwrap();
        watch.begin().await.unwrap();
        (client, watch)
    });
    bench.admin(&["kv", "insert", "key", "value"]);
    let list = || -> Vec<Value> {
        let printed = bench.admin(&["watch", "list", "--json"]);
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let sum = |watches: &[Value], field: &str| -> u64 {
        watches.iter().map(|watch| watch[field].as_u64().unwrap()).sum()
    };
    let found = wait_for("the watch is behind at one node", list, |found| sum(found, "changes_behind") == 1);
    let mut nodes: Vec<u64> = found.iter().map(|watch| watch["node"].as_u64().unwrap()).collect();
    nodes.sort_unstable();
    assert_eq!((nodes, sum(&found, "partitions")), (vec![1, 2, 3], 256), "{found:?}");
    for watch in &found {
        assert_eq!((&watch["token"], &watch["secret"]), (&"reader".into(), &false.into()), "{watch}");
    }
    let refused = bench.refused(&path, &["watch", "list"]);
    assert!(refused.contains("needs `admin`"), "{refused}");
    drop((reader, runtime));
    wait_for("the end of its connections", list, Vec::is_empty);
}

#[test]
fn expired_token_is_refused_everywhere() {
    let folder = crate::support::folder();
    let clock = folder.path().join("clock");
    let secret = new_secret(folder.path(), "secret");
    let mut up = zerohop(&["up", "--port", "0", "--json", "--memory", "--instances", "1", "--nodes", "3"]);
    up.arg("--secret-file").arg(&secret).env("ZEROHOP_TEST_CLOCK", &clock);
    let bench = TokenBench { cluster: ServingProgram::start(up), folder, secret };
    for (time, words) in [
        ("0", "valid for no time"),
        ("soon", "a whole number and a unit"),
        ("-1h", "below 0"),
        ("999999999999d", "the longest time allowed is 36500d"),
        ("99999999999999999999d", "the longest time allowed is 36500d"),
    ] {
        let path = bench.folder.path().join("none");
        let arguments = ["token", "new", "none", "--all", "read", "--expires", time, "--file"];
        let refused = run_with(
            &bench.cluster,
            Some(&bench.secret),
            &[&arguments[..], &[path.to_str().unwrap()]].concat(),
        );
        assert!(code(&refused) == 2 && stderr(&refused).contains(words) && !path.exists(), "{refused:?}");
    }
    bench.token("ever", &["--all", "read"]);
    let path = bench.token("robot", &["--all", "read,write", "--expires", "1h"]);
    let text = fs::read_to_string(&path).unwrap().trim().to_owned();
    let listed = || bench.admin(&["token", "list"]);
    assert!(listed().contains("all keyspaces: read,write\texpires in "), "{}", listed());
    assert!(listed().contains("all keyspaces: read\n"), "{}", listed());
    bench.done(&path, &["kv", "insert", "k", "v"]);
    let mut waits = TcpStream::connect(bench.instance()).unwrap();
    waits.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
    waits.write_all(format!("AUTH {text}\r\nGET k\r\nZH.WAIT key v 86400000\r\n").as_bytes()).unwrap();

    fs::write(&clock, (2 * 60 * 60 * 1_000).to_string()).unwrap();
    let mut replies = String::new();
    waits.read_to_string(&mut replies).unwrap();
    assert!(replies.starts_with("+OK\r\n$1\r\nv\r\n-NOAUTH the token has expired"), "{replies}");
    // A clock that is set back does not revive an expired token.
    fs::write(&clock, "0").unwrap();
    let words = "the token has expired: ask the cluster's administrator for another";
    wait_for("every node knows", listed, |listed| listed.contains("read,write\thas expired\n"));
    for node in bench.cluster.ready["nodes"].as_array().unwrap() {
        let manager = node["manager"].as_str().unwrap().to_owned();
        for command in
            [&["kv", "lookup", "k"][..], &["kv", "insert", "k", "w"], &["status"], &["token", "list"]]
        {
            // Other nodes may learn of the expiry a moment later than the node that was asked.
            let attempt = || bench.with(&path, &[command, &["--endpoint", &manager]].concat());
            let refused = wait_for("it is refused", attempt, |refused| code(refused) == 3);
            assert!(stderr(&refused).contains(words), "{refused:?}");
        }
    }
    assert!(bench.redis(&[&format!("AUTH {text}"), "GET k"]).starts_with("-WRONGPASS the token has expired"));
    let json = bench.admin(&["token", "list", "--json"]);
    let shown: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| shown.iter().find(|one| one["name"] == name).unwrap();
    assert!(of("robot")["expired"] == true && of("robot")["expires_at_ms"].is_u64(), "{json}");
    assert!(of("ever")["expired"] == false && of("ever")["expires_at_ms"].is_null(), "{json}");
    let doctor = bench.with(&path, &["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout(&doctor)).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let cluster = findings.iter().find(|one| one["check"] == "cluster").unwrap();
    assert!(cluster["found"].as_str().unwrap().contains("the token has expired"), "{cluster}");
    let advice = cluster["advice"].as_str().unwrap();
    assert!(advice.contains("`zerohop token new NAME") && !advice.contains("listens"), "{cluster}");
    // Another one takes its name.
    fs::remove_file(&path).unwrap();
    let path = bench.token("robot", &["--all", "read"]);
    assert_eq!(bench.done(&path, &["kv", "lookup", "k"]), "v");
    assert_eq!(listed().matches("robot").count(), 1);
}

#[test]
fn tokens_of_other_clusters_and_invalid_tokens_are_refused() {
    let bench = TokenBench::new(&[]);
    let other = TokenBench::new(&[]);
    let foreign = other.token("foreign", &["--all", "read"]);
    assert!(bench.refused(&foreign, &["kv", "lookup", "k"]).contains("does not know the secret given"));
    let error = bench.refused(&bench.secret, &["kv", "lookup", "k"]);
    assert!(error.contains("no token, which is a line that begins with zht1-"), "{error}");
    assert!(bench.refused(&bench.folder.path().join("none"), &["status"]).contains("opening failed"));
    // A token without permissions, or with unknown ones, is refused.
    for arguments in [&["a"][..], &["b", "--all", "reading"], &["c", "--keyspace", "none=read"]] {
        let refused = run_with(&bench.cluster, Some(&bench.secret), &[&["token", "new"], arguments].concat());
        assert_ne!(code(&refused), 0, "{refused:?}");
        assert!(!Path::new(&format!("{}.token", arguments[0])).exists());
    }
    // A name is refused as a token's name.
    let path = bench.folder.path().join("named");
    let path = path.to_str().unwrap();
    for name in ["", "a b", "a/b", &"x".repeat(64)] {
        let arguments = ["token", "new", name, "--all", "read", "--file", path];
        let refused = run_with(&bench.cluster, Some(&bench.secret), &arguments);
        assert!(code(&refused) == 3 && !Path::new(path).exists(), "{refused:?}");
        let error = stderr(&refused);
        assert!(error.contains("a token's name ") && !error.contains("keyspace"), "{error}");
    }
    assert_eq!(bench.admin(&["token", "list"]), "");
    // An existing file is refused too.
    let path = bench.folder.path().join("old.token");
    std::fs::write(&path, "").unwrap();
    let arguments = ["token", "new", "old", "--all", "read", "--file", path.to_str().unwrap()];
    let refused = run_with(&bench.cluster, Some(&bench.secret), &arguments);
    assert!(code(&refused) == 3 && stderr(&refused).contains("name another file with --file"), "{refused:?}");
    assert_eq!(bench.admin(&["token", "list"]), "");
}

#[test]
fn clients_of_redis_show_their_token_as_the_password() {
    let bench = TokenBench::new(&[]);
    let text = |path: PathBuf| fs::read_to_string(path).unwrap().trim().to_owned();
    let robot = text(bench.token("robot", &["--keyspace", "default=read,write"]));
    let reader = text(bench.token("reader", &["--all", "read"]));
    let hello = format!("HELLO 3 AUTH robot {robot}");
    assert!(bench.redis(&[&hello, "SET k v", "GET k"]).ends_with("+OK\r\n$1\r\nv\r\n+OK\r\n"));
    assert_eq!(bench.redis(&[&format!("AUTH {robot}"), "GET k"]), "+OK\r\n$1\r\nv\r\n+OK\r\n");
    let reads =
        [&format!("AUTH reader {reader}")[..], "GET k", "SET k w", "DEL k", "MULTI", "SET k w", "EXEC"];
    let answer = bench.redis(&reads);
    assert!(
        answer.starts_with("+OK\r\n$1\r\nv\r\n-NOPERM") && answer.matches("-NOPERM").count() >= 3,
        "{answer}"
    );
    for wrong in [format!("AUTH robot {reader}"), "AUTH sesame".to_owned(), format!("AUTH {robot}0")] {
        let answer = bench.redis(&[&wrong, "GET k"]);
        assert!(answer.starts_with("-WRONGPASS") && answer.contains("-NOAUTH"), "{answer}");
    }
    // Unauthenticated clients get no memory for a large command.
    let large = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16000000\r\n{}", "x".repeat(100_000));
    assert!(bench.redis(&[&large]).starts_with("-NOAUTH"));
    bench.admin(&["token", "revoke", "robot"]);
    assert!(bench.redis(&[&format!("AUTH {robot}"), "GET k"]).starts_with("-WRONGPASS"));
}

#[test]
fn interrupted_restore_is_completed_by_the_same_command() {
    let bench = TokenBench::new(&[]);
    let backup = bench.folder.path().join("backup");
    let backup = backup.to_str().unwrap();
    let other = ["--keyspace", "other"];
    bench.admin(&["keyspace", "create", "other", "--durability", "memory"]);
    bench.admin(&["kv", "insert", "k", "v"]);
    bench.admin(&[&["kv", "insert", "k", "w"], &other[..]].concat());
    bench.admin(&["backup", backup]);
    bench.admin(&["kv", "remove", "k"]);
    bench.admin(&[&["kv", "remove", "k"], &other[..]].concat());
    let half = bench.token("half", &["--keyspace", "default=read,write", "--keyspace", "other=read"]);
    let ended = bench.with(&half, &["restore", backup]);
    let error = stderr(&ended);
    assert_eq!(code(&ended), 4, "{ended:?}");
    assert!(
        error.contains("`write` in keyspace") && error.contains("restored so far: no keyspace"),
        "{error}"
    );
    assert!(error.contains("what is in default, other is not whole"), "{error}");
    bench.admin(&["restore", backup]);
    assert_eq!(bench.admin(&["kv", "lookup", "k"]), "v");
    assert_eq!(bench.admin(&[&["kv", "lookup", "k"], &other[..]].concat()), "w");
    assert_eq!(bench.admin(&["kv", "scan"]).lines().count(), 1, "no mark is left");
}
