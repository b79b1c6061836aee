//! Exceeded limits are typed errors.

use zerohop_client::{Failure, RecordType};
use zerohop_wire::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use crate::server::support::{block_on, client, create, default_keyspace, in_memory};

#[test]
fn longest_key_and_value_are_accepted_and_longer_refused() {
    let server = in_memory(1);
    block_on(async {
        let client = client(&server).await;
        let keyspace = default_keyspace(&client).await;
        let key = vec![b'k'; KEY_BYTES_MAX];
        let value = vec![7; VALUE_BYTES_MAX];
        keyspace.insert(&key, &value).await.unwrap();
        assert_eq!(keyspace.lookup_bytes(&key).await.unwrap().as_deref(), Some(&value[..]));
        let longer = [&key[..], b"k"].concat();
        let failure = keyspace.insert(&longer, "v").await.unwrap_err();
        assert!(matches!(failure.failure(), Some(Failure::KeyTooLong { .. })), "{failure}");
        let longer = [&value[..], b"v"].concat();
        let failure = keyspace.insert("k", &longer).await.unwrap_err();
        assert!(matches!(failure.failure(), Some(Failure::ValueTooLong { .. })), "{failure}");
        let failure = keyspace.extend(&key, "v").await.unwrap_err();
        assert!(matches!(failure.failure(), Some(Failure::ValueTooLong { .. })), "{failure}");
    });
}

#[test]
fn wrong_type_and_unknown_keyspace_are_reported() {
    let server = in_memory(1);
    block_on(async {
        let client = client(&server).await;
        let keyspace = default_keyspace(&client).await;
        keyspace.append("list", &[b"v"]).await.unwrap();
        let failure = keyspace.increment("list", 1).await.unwrap_err();
        assert_eq!(failure.failure(), Some(&Failure::WrongType { found: RecordType::List }));
        let error = client.keyspace("nowhere").await.unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
        create(&client, "nowhere", None).await;
        client.keyspace("nowhere").await.unwrap();
    });
}
