//! A copy of a partition with different contents, though all of its checksums are right: only
//! anti-entropy finds that.

use std::path::Path;

use serde_json::Value;
use zerohop_wire::checksum::crc32c;

use crate::cluster::corrupt::files;
use crate::cluster::loads::connect;
use crate::cluster::nodes::NodeCluster;
use crate::support::wait_for;

/// More records than one comparison step covers.
const BOOKS: usize = 700;

/// Bytes before the key in a log entry (`docs/formats/segment.md`).
const HEAD_BYTES: usize = 28;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Overwrites a value in its segment, and recomputes the checksums so that they match the false
/// value.
fn falsify(folder: &Path, key: &str, value: &str, other: &str) {
    assert_eq!(value.len(), other.len());
    let written = format!("{key}{value}");
    let mut found = 0;
    for path in files(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "seg")) {
        let mut bytes = std::fs::read(&path).unwrap();
        let Some(at) = bytes.windows(written.len()).position(|window| window == written.as_bytes()) else {
            continue;
        };
        let (head, payload) = (at - HEAD_BYTES, at + key.len());
        let end = payload + u32_at(&bytes, head + 8) as usize;
        // The checksum is XORed with a salt, which this derives from the old checksum.
        let salt = u32_at(&bytes, head) ^ crc32c(&bytes[head + 4..payload]);
        bytes[payload..payload + other.len()].copy_from_slice(other.as_bytes());
        let sum = crc32c(&bytes[payload..end]);
        bytes[head + 4..head + 8].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32c(&bytes[head + 4..payload]) ^ salt;
        bytes[head..head + 4].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        found += 1;
    }
    assert_eq!(found, 1, "one segment has it");
}

#[tokio::test]
async fn verify_finds_differing_copy_and_reinstalls_it() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.json(&["keyspace", "create", "books", "--replicas", "3", "--partitions", "1"]);
    let value = |n: usize| format!("the value of book {n:03}, as all its copies should have it");
    let client = connect(&cluster.endpoints()).await;
    let books = client.keyspace("books").await.unwrap();
    let before = cluster.syncs();
    for n in 0..BOOKS {
        books.insert(format!("book-{n:03}").as_str(), value(n).as_bytes()).await.unwrap();
    }
    drop((books, client));
    cluster.wait_until_flushed(&before);
    let verified = cluster.json(&["verify"]).remove(0);
    assert_eq!(verified["intact"], true, "{verified}");
    let compared = &verified["compared"];
    assert_eq!((&compared["records"], &compared["replicas_min"]), (&BOOKS.into(), &3.into()), "{verified}");

    cluster.kill(2);
    let other = value(7).replace("should", "cannot");
    falsify(&folder.path().join("node-2"), "book-007", &value(7), &other);
    cluster.start_again(2);
    cluster.wait_until_complete();
    let (code, out, error) = cluster.run(&["verify"]);
    assert_eq!(code, 1, "{out} {error}");
    let words = [
        "700 records and chunks compared in",
        "one copy of a partition differs",
        "keyspace books, partition 0: the copy of instance",
    ];
    assert!(words.iter().all(|word| error.contains(word)), "{out} {error}");

    // The replica does a snapshot install, after which nothing differs.
    let verify = || -> Value {
        cluster.wait_until_complete();
        let (_, out, error) = cluster.run(&["verify", "--json"]);
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {error}"))
    };
    wait_for("all copies are one", verify, |verified| {
        verified["intact"] == true && verified["compared"]["replicas_min"] == 3
    });
}
