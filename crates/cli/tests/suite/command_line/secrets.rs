//! Clusters with a secret: which clients are served, the errors of the others, and that no output
//! contains the secret.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::mpsc;

use crate::support::GIVE_UP_AFTER;
use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, output, stderr, stdout, zerohop};

/// Makes a file with a new secret.
pub(crate) fn new_secret(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    let made = zerohop(&["secret".as_ref(), "new".as_ref(), path.as_os_str()]).output().unwrap();
    assert_eq!((code(&made), stdout(&made).as_str()), (0, ""), "{made:?}");
    path
}

/// Runs the program against a cluster, with this secret.
pub(crate) fn run_with(cluster: &ServingProgram, secret: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = zerohop(arguments);
    command.env("ZEROHOP_ENDPOINT", cluster.endpoint());
    if let Some(path) = secret {
        command.env("ZEROHOP_SECRET_FILE", path);
    }
    output(command, b"")
}

/// The first line of a node's log that contains these words.
pub(crate) fn log_line_with(node: &mut RunningProcess, words: &'static str) -> String {
    let log = BufReader::new(node.stderr.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    // The thread ends with the node.
    std::thread::spawn(move || {
        for line in log.lines().map_while(Result::ok).filter(|line| line.contains(words)) {
            drop(sender.send(line));
        }
    });
    receiver.recv_timeout(GIVE_UP_AFTER).unwrap()
}

fn refusal(cluster: &ServingProgram, secret: Option<&Path>) -> String {
    let refused = run_with(cluster, secret, &["kv", "insert", "k", "v"]);
    assert_eq!((code(&refused), stdout(&refused).as_str()), (3, ""), "{refused:?}");
    stderr(&refused)
}

pub(crate) fn up(secret: &Path, arguments: &[&str]) -> ServingProgram {
    let mut command = zerohop(&["up", "--port", "0", "--json", "--memory", "--instances", "1"]);
    command.args(arguments).arg("--secret-file").arg(secret);
    ServingProgram::start(command)
}

#[test]
fn cluster_serves_only_clients_with_the_secret() {
    let folder = crate::support::folder();
    let (ours, another) = (new_secret(folder.path(), "ours"), new_secret(folder.path(), "another"));
    assert_eq!(fs::metadata(&ours).unwrap().permissions().mode() & 0o777, 0o600);
    // Copies on two nodes show that instances and managers have authenticated to each other.
    let cluster = up(&ours, &["--nodes", "3"]);
    let done = run_with(&cluster, Some(&ours), &["kv", "insert", "k", "v"]);
    assert_eq!(code(&done), 0, "{done:?}");
    let flag = ["kv", "lookup", "k", "--secret-file", ours.to_str().unwrap()];
    assert_eq!(
        stdout(&run_with(&cluster, Some(&another), &flag)),
        "v",
        "the argument goes before the variable"
    );
    let nodes = run_with(&cluster, Some(&ours), &["node", "list", "--json"]);
    assert_eq!(stdout(&nodes).matches("\"up\"").count(), 3, "{nodes:?}");

    assert!(refusal(&cluster, None).contains("--secret-file"));
    assert!(refusal(&cluster, Some(&another)).contains("does not know the secret given"));
    assert!(refusal(&cluster, Some(&folder.path().join("nowhere"))).contains("opening failed"));
    fs::set_permissions(&ours, Permissions::from_mode(0o644)).unwrap();
    assert!(refusal(&cluster, Some(&ours)).contains("mode is 0644"));
    fs::set_permissions(&ours, Permissions::from_mode(0o600)).unwrap();
    let short = folder.path().join("short");
    fs::write(&short, "swordfish").unwrap();
    fs::set_permissions(&short, Permissions::from_mode(0o600)).unwrap();
    let error = refusal(&cluster, Some(&short));
    assert!(error.contains("needs 32") && !error.contains("swordfish"), "{error}");
}

#[test]
fn client_with_secret_refuses_cluster_without_one() {
    let folder = crate::support::folder();
    let ours = new_secret(folder.path(), "ours");
    let cluster = ServingProgram::in_memory();
    assert!(refusal(&cluster, Some(&ours)).contains("the server has none"));
    cluster.ok(&["kv", "insert", "k", "v"]);
}

#[test]
fn node_with_other_secret_cannot_join() {
    let folder = crate::support::folder();
    let (ours, another) = (new_secret(folder.path(), "ours"), new_secret(folder.path(), "another"));
    let cluster = up(&ours, &["--nodes", "2"]);
    for (secret, words) in [(Some(&another), "does not know the secret given"), (None, "--secret-file")] {
        let mut command = zerohop(&["node", "--memory", "--listen", "127.0.0.1:0", "--instances", "1"]);
        command.args(["--join", cluster.endpoint()]);
        command.args(["--ends-with-parent", &std::process::id().to_string()]);
        if let Some(path) = secret {
            command.arg("--secret-file").arg(path);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut node = RunningProcess::start(&mut command);
        let line = log_line_with(&mut node, "the connection to a manager was rejected");
        assert!(line.contains(words), "{line}");
    }
    let nodes = run_with(&cluster, Some(&ours), &["node", "list", "--json"]);
    assert_eq!(stdout(&nodes).matches("\"id\"").count(), 2, "{nodes:?}");
}

#[test]
fn remote_listen_requires_secret_or_insecure_option() {
    let folder = crate::support::folder();
    let ours = new_secret(folder.path(), "ours");
    let arguments = ["node", "--memory", "--instances", "1", "--json", "--listen", "0.0.0.0:0"];
    let refused = zerohop(&arguments).output().unwrap();
    assert_eq!(code(&refused), 3);
    assert!(stderr(&refused).contains("zerohop secret new"), "{refused:?}");
    let mut command = zerohop(&arguments);
    command.arg("--secret-file").arg(&ours);
    let node = ServingProgram::start(command);
    assert!(node.ready["manager"].is_string());
}

#[test]
fn http_and_redis_reveal_nothing_without_secret() {
    let folder = crate::support::folder();
    let ours = new_secret(folder.path(), "ours");
    let cluster = up(&ours, &[]);
    let query = |address: &str, request: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let get = |path: &str, header: &str| {
        query(
            cluster.endpoint(),
            &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n"),
        )
    };
    for path in ["/status", "/metrics"] {
        let answer = get(path, "");
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("zerohop secret bearer"), "{answer}");
    }
    assert!(get("/health", "").starts_with("HTTP/1.1 200 "));
    let bearer = zerohop(&["secret", "bearer", "--secret-file", ours.to_str().unwrap()]).output().unwrap();
    let header = format!("Authorization: Bearer {}\r\n", stdout(&bearer).trim());
    assert!(get("/status", &header).starts_with("HTTP/1.1 200 "), "{}", get("/status", &header));

    let instance = cluster.ready["nodes"][0]["instances"][0]["addr"].as_str().unwrap();
    let answer = query(instance, "GET k\r\nSET k v\r\nQUIT\r\n");
    assert_eq!(answer.matches("-NOAUTH").count(), 2, "{answer}");
}

#[test]
fn the_secret_is_in_no_log_and_in_no_list_of_processes() {
    let folder = crate::support::folder();
    let (ours, another) = (new_secret(folder.path(), "ours"), new_secret(folder.path(), "another"));
    let mut command =
        zerohop(&["up", "--port", "0", "--json", "--memory", "--instances", "1", "--nodes", "2"]);
    command.args(["--log-level", "trace", "--secret-file"]).arg(&ours);
    let cluster = ServingProgram::start_with_log(command, &folder.path().join("log"));
    assert_eq!(code(&run_with(&cluster, Some(&ours), &["kv", "insert", "k", "v"])), 0);
    refusal(&cluster, Some(&another));
    refusal(&cluster, None);
    let secret = fs::read_to_string(&ours).unwrap().trim().to_owned();
    assert_eq!(secret.len(), 64);
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("serving"), "{log}");
    let mut texts = vec![log];
    for node in cluster.ready["nodes"].as_array().unwrap() {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{}/{file}", node["pid"])).unwrap();
            texts.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    for text in texts {
        assert!(!text.contains(&secret) && !text.contains(&secret[..32]), "the secret is printed");
    }
}

#[test]
fn ready_line_of_up_has_the_options_that_other_commands_need() {
    let folder = crate::support::folder();
    let secret = new_secret(folder.path(), "the secret");
    let mut up =
        zerohop(&["up", "--nodes", "1", "--instances", "1", "--memory", "--port", "0", "--secret-file"]);
    up.arg(&secret).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut up = RunningProcess::start(&mut up);
    // The pipe stays open to the end: `up` stops if its next line finds no reader.
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines().map_while(Result::ok);
    let ready = lines.find(|line| line.starts_with("Ready. ")).unwrap();
    let (_, commands) = ready.split_once(": ").unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_zerohop")).parent().unwrap();
    // Both commands, as a user copies them.
    let mut shell = std::process::Command::new("sh");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    shell.args(["-c", commands]).env("PATH", path).env_remove("ZEROHOP_ENDPOINT");
    let output = shell.env_remove("ZEROHOP_SECRET_FILE").output().unwrap();
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "world"), "{ready}: {output:?}");
    rustix::process::kill_process(up.pid(), rustix::process::Signal::TERM).unwrap();
    assert!(up.ended().success());
    assert_eq!(lines.next().as_deref(), Some("Ctrl-C stops it."));
}
