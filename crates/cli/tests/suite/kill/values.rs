//! Values that identify their write: key, number and checksum, so that each value can be checked by
//! itself.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zerohop_client::{Client, Record};

const CHECKSUM_BYTES: usize = 8;

pub(crate) fn random(seed: u64, at: u64) -> u64 {
    xxh3_64_with_seed(&at.to_le_bytes(), seed)
}

/// The value of a key's write of this number: mostly small, sometimes larger than the journal
/// stores whole.
pub(crate) fn value(key: &str, number: u64) -> Vec<u8> {
    let draw = random(number, xxh3_64(key.as_bytes()));
    let bytes = if draw.is_multiple_of(50) { 60_000 + draw / 32 % 20_000 } else { 20 + draw / 32 % 1500 };
    let mut value = format!("{key}#{number}#").into_bytes();
    let filled = value.len() + bytes as usize;
    value.extend((value.len()..filled).map(|at| (draw >> (at % 56)) as u8));
    value.extend_from_slice(&xxh3_64(&value).to_le_bytes());
    value
}

/// The number of the write with this value. Fails if it is not a value of this key.
pub(crate) fn number_of(key: &str, value: &[u8]) -> u64 {
    let damaged = || panic!("key {key} holds what was never written: {} bytes", value.len());
    let Some(split) = value.len().checked_sub(CHECKSUM_BYTES) else { damaged() };
    let (content, checksum) = value.split_at(split);
    if checksum != xxh3_64(content).to_le_bytes() {
        damaged();
    }
    let mut fields = content.split(|&byte| byte == b'#');
    assert_eq!(fields.next(), Some(key.as_bytes()), "a value of another key");
    let number = std::str::from_utf8(fields.next().unwrap()).unwrap().parse().unwrap();
    assert_eq!(value, self::value(key, number));
    number
}

/// Scans all keys: there is no key, and no value, that no worker can have written.
pub(crate) async fn check_all_keys(client: &Client, keyspaces: &[&str]) {
    for name in keyspaces {
        let keyspace = client.keyspace(name).await.unwrap();
        let mut scan = keyspace.scan("");
        while let Some(keys) = scan.next_page().await.unwrap() {
            for listed in keys {
                let key = std::str::from_utf8(&listed.key).unwrap();
                let record = keyspace.lookup(key).await.unwrap().unwrap();
                match (key.split('-').next().unwrap(), record) {
                    ("insert", Record::Bytes { bytes, .. }) => drop(number_of(key, &bytes)),
                    ("count", Record::Bytes { bytes, .. }) => {
                        std::str::from_utf8(&bytes).unwrap().parse::<u64>().unwrap();
                    }
                    ("append", Record::List { .. }) => {}
                    (_, record) => panic!("a key that no worker wrote: {key}, {record:?}"),
                }
            }
        }
    }
}
