//! Transforms of every operator and type, in records and in blobs: at any offset, within a chunk,
//! across two, and where no bytes exist yet; alone and in transactions. The expected results are
//! computed here as the guide defines them.

use std::fmt::Debug;

use zerohop_client::{Blob, Client, Keyspace, Number, Operator, Transform};

use crate::support::patience;
use crate::support::serving::{ServingProgram, code, stderr};

const ALL: [Operator; 7] = [
    Operator::Add,
    Operator::Multiply,
    Operator::Min,
    Operator::Max,
    Operator::And,
    Operator::Or,
    Operator::Xor,
];

/// Bytes of a chunk.
const CHUNK: u64 = 4096;

/// The records and blobs of a keyspace to transform, through one client.
struct TransformPlace<'c> {
    client: &'c Client,
    keyspace: &'c Keyspace,
    blob: Blob<'c>,
}

impl TransformPlace<'_> {
    /// Applies one operation to numbers that are `first`, at all positions. `expected` is the
    /// result.
    async fn one<N: Number + Debug>(&self, operator: Operator, (first, operand, expected): (N, N, N)) {
        let width = N::TYPE.bytes() as u64;
        let of = |number: N| number.bits().to_le_bytes()[..width as usize].to_vec();
        let is = |found: N, wanted: N, what: &str| {
            assert_eq!(
                of(found),
                of(wanted),
                "{operator:?} of {:?}, {what}: {first:?} and {operand:?}",
                N::TYPE
            );
        };
        let transform = |at| Transform::new(operator, operand).at(at);
        // Aligned; not aligned; in two chunks, unless the number has one byte; and in two chunks of
        // which the second does not exist.
        for at in [8, 101, CHUNK - width / 2, 3 * CHUNK - width / 2] {
            self.again().await;
            self.blob.write_at(at, &of(first)).await.unwrap();
            is(self.blob.transform_and_get_old(transform(at)).await.unwrap(), first, "old in a blob");
            self.check_bytes(at, &of(expected)).await;
            self.blob.write_at(at, &of(first)).await.unwrap();
            is(self.blob.transform(transform(at)).await.unwrap(), expected, "new in a blob");
            self.check_bytes(at, &of(expected)).await;

            self.blob.write_at(at, &of(first)).await.unwrap();
            let transaction = self.client.begin();
            let own = transaction.blob(self.keyspace, "b");
            let old = own.transform_and_get_old(transform(at)).await.unwrap();
            let committed = transaction.commit().await.unwrap();
            is(committed.result(&old).unwrap(), first, "old in a blob by a transaction");
            self.check_bytes(at, &of(expected)).await;
        }
        // Missing bytes count as zeros.
        self.again().await;
        let far = 5 * CHUNK - width / 2;
        is(
            self.blob.transform_and_get_old(transform(far)).await.unwrap(),
            N::from_bits(0),
            "nothing in a blob",
        );

        for at in [0, 3] {
            let mut record = vec![0; at as usize];
            record.extend(of(first));
            self.keyspace.insert("r", &record).await.unwrap();
            is(
                self.keyspace.transform_and_get_old("r", transform(at)).await.unwrap(),
                first,
                "old in a record",
            );
            self.keyspace.insert("r", &record).await.unwrap();
            is(self.keyspace.transform("r", transform(at)).await.unwrap(), expected, "new in a record");
            let found = self.keyspace.lookup_bytes("r").await.unwrap().unwrap();
            assert_eq!(found[at as usize..], of(expected));
        }
    }

    /// Resets the blob to two chunks of zeros.
    async fn again(&self) {
        self.blob.truncate(0).await.unwrap();
        self.blob.truncate(2 * CHUNK).await.unwrap();
    }

    /// Checks the bytes at an offset, and zeros around them.
    async fn check_bytes(&self, at: u64, bytes: &[u8]) {
        let around =
            self.blob.read_at(at - 2, bytes.len() as u64 + 4).await.unwrap().read_to_end().await.unwrap();
        let wanted = [&[0, 0], bytes].concat();
        assert_eq!(around[..wanted.len()], wanted, "at {at}");
        assert!(around[wanted.len()..].iter().all(|byte| *byte == 0), "at {at}");
    }
}

/// Every operator on numbers of an integer type; some cases overflow.
macro_rules! integers {
    ($place:expr, $($type:ty),*) => {$(
        for (a, b) in [(<$type>::MAX, 2), (<$type>::MIN, 3), (100, <$type>::MAX / 7 * 3)] {
            for operator in ALL {
                let expected = match operator {
                    Operator::Add => a.wrapping_add(b),
                    Operator::Multiply => a.wrapping_mul(b),
                    Operator::Min => Ord::min(a, b),
                    Operator::Max => Ord::max(a, b),
                    Operator::And => a & b,
                    Operator::Or => a | b,
                    Operator::Xor => a ^ b,
                };
                $place.one(operator, (a, b, expected)).await;
            }
        }
    )*};
}

/// The operators of floats, with NaN and infinities.
macro_rules! floats {
    ($place:expr, $($type:ty),*) => {$(
        let nan = <$type>::NAN;
        for (operator, a, b, expected) in [
            (Operator::Add, 0.5, -2.25, -1.75),
            (Operator::Add, <$type>::MAX, <$type>::MAX, <$type>::INFINITY),
            (Operator::Multiply, 1.5, -4.0, -6.0),
            (Operator::Multiply, <$type>::MIN_POSITIVE, <$type>::MIN_POSITIVE, 0.0),
            (Operator::Min, 2.0, -1.0, -1.0),
            (Operator::Min, 0.0, -0.0, -0.0),
            (Operator::Min, nan, 7.0, 7.0),
            (Operator::Min, 7.0, nan, 7.0),
            (Operator::Max, 2.0, <$type>::NEG_INFINITY, 2.0),
            (Operator::Max, -0.0, 0.0, 0.0),
            (Operator::Max, nan, -7.0, -7.0),
        ] {
            $place.one(operator, (a, b, expected)).await;
        }
    )*};
}

#[test]
fn transform_operators_match_the_guide_for_each_type_and_offset() {
    let cluster = ServingProgram::in_memory();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let client = patience::client(cluster.endpoint()).await.unwrap();
        let keyspace = client.keyspace("default").await.unwrap();
        let place = TransformPlace { client: &client, keyspace: &keyspace, blob: keyspace.blob("b") };
        place.blob.create_with(12, b"").await.unwrap();
        integers!(place, i8, i16, i32, i64, u8, u16, u32, u64);
        floats!(place, f32, f64);
    });
}

#[test]
fn float_bit_operations_are_refused() {
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["blob", "put", "b", "/dev/null"]);
    for of in [&["kv", "transform", "r"][..], &["blob", "transform", "b"]] {
        for operator in ["and", "or", "xor"] {
            for number in ["f32", "f64"] {
                let output = cluster.run(&[of, &[operator, "1", "--type", number]].concat());
                assert_eq!(code(&output), 2, "{output:?}");
                assert!(stderr(&output).contains("combines bits"), "{output:?}");
            }
        }
    }
    assert_eq!(code(&cluster.run(&["kv", "lookup", "r"])), 1, "nothing is made");
    assert_eq!(cluster.json(&["blob", "stat", "b"])["size"], 0);
}
