//! etcd: one member, and a connection for each operation under way.

use std::net::SocketAddr;

use bench_common::failure::Failure;
use bench_common::process::{self, Server};
use bench_common::servers::Place;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zerohop_ycsb::{ScannedRecords, YcsbStore};

use crate::grpc::GrpcCalls;
use crate::limits;
use crate::protobuf::{FieldValue, fields, put_bytes, put_integer};

const PUT: &str = "/etcdserverpb.KV/Put";
const RANGE: &str = "/etcdserverpb.KV/Range";
const DELETE: &str = "/etcdserverpb.KV/DeleteRange";

/// A connection.
pub(crate) struct EtcdStore {
    stream: TcpStream,
    calls: GrpcCalls,
    out: Vec<u8>,
    received: Vec<u8>,
}

/// Starts a member. It may not listen yet.
pub(crate) fn start(place: &Place) -> Result<(Server, SocketAddr), Failure> {
    let program = process::installed("etcd", crate::INSTALL).map_err(Failure::Usage)?;
    let first = process::free_ports(2)?;
    let [client, peer] = [first, first + 1].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let line = format!(
        "--name one --log-level error --initial-cluster one=http://{peer} --initial-cluster-state new \
         --listen-peer-urls http://{peer} --initial-advertise-peer-urls http://{peer} \
         --listen-client-urls http://{client} --advertise-client-urls http://{client} \
         --quota-backend-bytes 8589934592 --data-dir"
    );
    let data = place.dir.join("member").display().to_string();
    let arguments: Vec<String> = line.split(' ').map(str::to_owned).chain([data]).collect();
    Ok((place.start(&program, &arguments)?, client))
}

impl EtcdStore {
    /// Connects.
    pub(crate) async fn connect(address: SocketAddr) -> Result<EtcdStore, Failure> {
        let connecting = || Failure::while_doing(format!("connecting to {address}"));
        let stream = TcpStream::connect(address).await.map_err(connecting())?;
        stream.set_nodelay(true).map_err(connecting())?;
        let calls = GrpcCalls::new(address.to_string());
        Ok(EtcdStore { stream, calls, out: Vec::new(), received: Vec::new() })
    }

    /// The answer to a call.
    async fn call(&mut self, path: &'static str, message: &[u8]) -> Result<&[u8], Failure> {
        self.calls.request(path, message, &mut self.out);
        self.stream.write_all(&self.out).await.map_err(Failure::while_doing("sending a call"))?;
        self.out.clear();
        loop {
            let (used, has_ended) = self.calls.read(&self.received)?;
            self.received.drain(..used);
            if has_ended {
                return self.calls.message();
            }
            self.received.reserve(limits::RECEIVE_BYTES);
            let reading = Failure::while_doing("receiving an answer");
            if self.stream.read_buf(&mut self.received).await.map_err(reading)? == 0 {
                return Err(Failure::Protocol("nothing: it closed the connection".into()));
            }
        }
    }
}

impl YcsbStore for EtcdStore {
    type Value = Vec<u8>;
    type Error = Failure;

    async fn insert(&mut self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.call(PUT, &put_request(key, value)).await?;
        Ok(())
    }

    async fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        let found = records(self.call(RANGE, &range_request(key, None)).await?)?;
        Ok(found.into_iter().next().and_then(|(_, value)| value))
    }

    async fn update(&mut self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.insert(key, value).await
    }

    async fn scan(&mut self, from: &str, end: &str, count: u64) -> Result<ScannedRecords<Vec<u8>>, Failure> {
        records(self.call(RANGE, &range_request(from, Some((end, count)))).await?)
    }

    async fn remove(&mut self, key: &str) -> Result<(), Failure> {
        // DeleteRangeRequest { key = 1 }.
        self.call(DELETE, &range_request(key, None)).await?;
        Ok(())
    }
}

/// PutRequest { key = 1, value = 2 }.
fn put_request(key: &str, value: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    put_bytes(&mut message, 1, key.as_bytes());
    put_bytes(&mut message, 2, value);
    message
}

/// RangeRequest { key = 1, range_end = 2, limit = 3 }: one key, or those up to another one and at most so many.
fn range_request(key: &str, range: Option<(&str, u64)>) -> Vec<u8> {
    let mut message = Vec::new();
    put_bytes(&mut message, 1, key.as_bytes());
    if let Some((end, count)) = range {
        put_bytes(&mut message, 2, end.as_bytes());
        put_integer(&mut message, 3, count);
    }
    message
}

/// RangeResponse { kvs = 2: KeyValue { key = 1, value = 5 }, repeated }.
fn records(response: &[u8]) -> Result<ScannedRecords<Vec<u8>>, Failure> {
    let mut records = Vec::new();
    for (number, field) in fields(response)? {
        let (2, FieldValue::Bytes(record)) = (number, field) else { continue };
        let (mut key, mut value) = (Vec::new(), None);
        for (number, field) in fields(record)? {
            match (number, field) {
                (1, FieldValue::Bytes(bytes)) => key = bytes.to_vec(),
                (5, FieldValue::Bytes(bytes)) => value = Some(bytes.to_vec()),
                _ => {}
            }
        }
        records.push((key, value));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_fields_of_their_definition() {
        assert_eq!(put_request("k", b"v"), b"\x0a\x01k\x12\x01v");
        let long = put_request("k", &[7; 1000]);
        assert_eq!((&long[3..6], long.len()), (&b"\x12\xe8\x07"[..], 1006));
        assert_eq!(range_request("k", None), b"\x0a\x01k");
        assert_eq!(range_request("k", Some(("z", 100))), b"\x0a\x01k\x12\x01z\x18\x64");
    }

    #[test]
    fn records_of_an_answer_are_in_its_order() {
        // ResponseHeader, two of KeyValue with revisions, more, count.
        let answer =
            b"\x0a\x02\x08\x01\x12\x0a\x0a\x01k\x10\x02\x20\x01\x2a\x01v\x12\x05\x0a\x01l\x10\x03\x18\x01\x20\x07";
        let expected = [(b"k".to_vec(), Some(b"v".to_vec())), (b"l".to_vec(), None)];
        assert_eq!(records(answer).unwrap(), expected);
        assert_eq!(records(b"").unwrap(), []);
        assert!(records(b"\x12\x05\x0a").is_err());
    }
}
