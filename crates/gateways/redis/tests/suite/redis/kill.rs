//! Transactions on a node that is killed while its disk holds back unsynced data. Acknowledged ones
//! must be there; of the others all or nothing.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zerohop_disk::{HOLD_UNSYNCED, TEST_DISK_VARIABLE};
use zerohop_server::{Server, ServerOptions};

use crate::redis::support::{Redis, Reply, addresses, make_sync_keyspace, ok};
use crate::support::waiting::wait_for;

const CHILD_ROOT: &str = "ZEROHOP_REDIS_KILL_ROOT";
const TEST: &str = "redis::kill::transactions_are_atomic_over_a_kill";
/// Keys that each transaction sets to its number.
const KEYS: usize = 20;

fn start(root: &Path) -> Server {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let data = Some(root.to_owned());
    Server::start(ServerOptions {
        data,
        instances: Some(1),
        gateway: Some(zerohop_redis::GATEWAY),
        ..ServerOptions::new(listen)
    })
    .unwrap()
}

/// In the child: serves until its parent is gone.
fn be_the_child(root: &Path) {
    let server = start(root);
    make_sync_keyspace(server.manager_address(), "durable");
    println!("\nserving {}", addresses(&server)[0]);
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    std::process::exit(1);
}

fn start_child(root: &Path) -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(CHILD_ROOT, root)
        .env(TEST_DISK_VARIABLE, HOLD_UNSYNCED)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let address = output.lines().find_map(|line| line.unwrap().strip_prefix("serving ")?.parse().ok());
    (child, address.expect("the child serves"))
}

#[test]
fn transactions_are_atomic_over_a_kill() {
    if let Some(root) = std::env::var_os(CHILD_ROOT) {
        return be_the_child(Path::new(&root));
    }
    for round in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, address) = start_child(folder.path());
        let mut redis = Redis::connect(address);
        assert_eq!(redis.send_command("ZH.KEYSPACE durable"), ok());
        let done = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&done);
        let killer = std::thread::spawn(move || {
            wait_for("some are acknowledged", || counted.load(Ordering::Relaxed), |done| *done > 0);
            std::thread::sleep(Duration::from_millis(60 * round));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let (mut sent, mut acknowledged) = (0, 0);
        // Until the connection breaks. Several are under way at a time.
        'alive: loop {
            for _ in 0..4 {
                sent += 1;
                let mut bytes = crate::redis::support::command(&[b"MULTI"]);
                for key in 0..KEYS {
                    let words = [b"SET", format!("k{key}").as_bytes(), sent.to_string().as_bytes()]
                        .map(<[u8]>::to_vec);
                    bytes.extend(crate::redis::support::command(&[&words[0], &words[1], &words[2]]));
                }
                bytes.extend(crate::redis::support::command(&[b"EXEC"]));
                if std::io::Write::write_all(&mut redis.stream, &bytes).is_err() {
                    break 'alive;
                }
            }
            for number in sent - 3..=sent {
                for expected in 0..KEYS + 2 {
                    match redis.try_reply() {
                        None => break 'alive,
                        Some(Reply::Array(Some(items))) if expected == KEYS + 1 => {
                            assert_eq!(items.len(), KEYS);
                            acknowledged = number;
                            done.store(number, Ordering::Relaxed);
                        }
                        Some(Reply::Simple(_)) => {}
                        Some(other) => panic!("{other:?}"),
                    }
                }
            }
        }
        killer.join().unwrap();
        let server = start(folder.path());
        let mut redis = Redis::connect(addresses(&server)[0]);
        assert_eq!(redis.send_command("ZH.KEYSPACE durable"), ok());
        let words: Vec<String> = (0..KEYS).map(|key| format!("k{key}")).collect();
        let Reply::Array(Some(found)) = redis.send_command(&format!("MGET {}", words.join(" "))) else {
            panic!("no values")
        };
        assert!(found.iter().all(|value| *value == found[0]), "a part of a transaction: {found:?}");
        let Reply::Bulk(Some(number)) = &found[0] else { panic!("none of {acknowledged} is there") };
        let number: u64 = String::from_utf8_lossy(number).parse().unwrap();
        assert!((acknowledged..=sent).contains(&number), "{number}; {acknowledged} acknowledged of {sent}");
        assert!(acknowledged > 0);
        server.stop().unwrap();
    }
}
