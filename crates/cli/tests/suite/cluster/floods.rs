//! A node that is killed and started again while unauthenticated clients connect to its ports all the time.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cluster::nodes::NodeCluster;
use crate::support::serving::{code, zerohop};
use crate::support::{folder, wait_for};

/// Connections that a flood keeps open at a port: the test and the node have descriptors for more.
const CONNECTIONS: usize = 200;

/// The pause while nothing listens at the port, and after [`BURST`] connections: without it, four floods take the processors
/// away from the node and from other tests for as long as the node starts.
const PAUSE: Duration = Duration::from_millis(1);

/// Connections without a pause between them.
const BURST: u64 = 4;

/// Connections to one port that say what no client with the secret says; the oldest is closed for the next. It ends with this value.
struct ConnectionFlood {
    is_over: Arc<AtomicBool>,
    /// Connections that were made.
    made: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl ConnectionFlood {
    fn start(address: &str, sent: &'static [u8]) -> ConnectionFlood {
        let address: SocketAddr = address.parse().unwrap();
        let (is_over, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts) = (Arc::clone(&is_over), Arc::clone(&made));
        let thread = std::thread::spawn(move || {
            let mut open = VecDeque::new();
            while !ends.load(Ordering::Relaxed) {
                let Ok(mut stream) = TcpStream::connect(address) else {
                    std::thread::sleep(PAUSE);
                    continue;
                };
                // The server may have closed it already.
                drop(stream.write_all(sent));
                if counts.fetch_add(1, Ordering::Relaxed) % BURST == 0 {
                    std::thread::sleep(PAUSE);
                }
                open.push_back(stream);
                if open.len() > CONNECTIONS {
                    open.pop_front();
                }
            }
        });
        ConnectionFlood { is_over, made, thread: Some(thread) }
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

impl Drop for ConnectionFlood {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[test]
fn node_that_restarts_during_a_flood_becomes_ready() {
    let folder = folder();
    let secret = folder.path().join("secret");
    let made = zerohop(&["secret".as_ref(), "new".as_ref(), secret.as_os_str()]).output().unwrap();
    assert_eq!(code(&made), 0, "{made:?}");
    let mut cluster = NodeCluster::start_with_secret(folder.path(), 3, &secret);
    let (manager, instance) = (cluster.endpoints()[1].clone(), cluster.instance(1));
    let floods = [
        (&manager, &b"GET /health HTTP/1.1\r\nHost: x\r\n"[..]),
        (&manager, b"Z"),
        (&instance, b"*2\r\n$4\r\nAUTH\r\n$300\r\nhalf of it"),
        (&instance, b"PING\r\n"),
    ]
    .map(|(address, sent)| ConnectionFlood::start(address, sent));
    let made = || floods.iter().map(ConnectionFlood::made).collect::<Vec<_>>();
    let goes_on = |before: Vec<u64>| {
        let is_more = |now: &Vec<u64>| now.iter().zip(&before).all(|(now, before)| now > before);
        wait_for("all floods make connections", made, is_more);
    };
    goes_on(vec![CONNECTIONS as u64; floods.len()]);
    cluster.kill(1);
    let before = made();
    // Waits until it is ready.
    cluster.start_again(1);
    goes_on(before);
    cluster.wait_until_complete();
    let (code, _, problems) = cluster.run(&["kv", "insert", "k", "v"]);
    assert_eq!((code, problems.as_str()), (0, ""));
    // It serves through its own ports too.
    let (code, found, problems) = cluster.run(&["kv", "lookup", "k", "--endpoint", &instance]);
    assert_eq!((code, found.as_str()), (0, "v"), "{problems}");
    drop(floods);
    cluster.stop_in_order();
}
