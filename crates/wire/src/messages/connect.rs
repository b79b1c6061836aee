//! The handshake of a connection, and pings.

use crate::error::{BadRequestReason, Failure};
use crate::fields::{FieldReader, layout, nothing_left, split};
use crate::ids::{Incarnation, InstanceId, MapEpoch, Timestamp};
use crate::limits::CLIENT_NAME_BYTES_MAX;
use crate::version::Features;

/// The id of a cluster, drawn at its bootstrap. All zero: any cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterId(pub [u8; 16]);

/// The proof of one side that it knows the cluster's secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// The method; 0: none, and the other fields are zero.
    pub method: u8,
    /// A nonce for the peer's proof.
    pub nonce: [u8; 32],
    /// The proof for the peer's nonce; zero in `Hello`, whose sender has not received a nonce.
    pub proof: [u8; 32],
}

/// The first frame of a connection. 80 bytes and the client's name:
///
/// versions min (1), max (1), proof method (1), name length (1), zero (4), features (8), cluster (16), map epoch (8),
/// zero (8), nonce (32), name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Oldest version the client speaks.
    pub version_min: u8,
    /// Newest version the client speaks.
    pub version_max: u8,
    /// The client's features beyond the version.
    pub features: Features,
    /// The cluster that the client expects; a server of another cluster refuses.
    pub cluster: ClusterId,
    /// The epoch of the client's map.
    pub map_epoch: MapEpoch,
    /// The method of proof; `Hello` has no field for the proof itself.
    pub proof_method: u8,
    /// A nonce for the server's proof, zero without a method.
    pub nonce: [u8; 32],
    /// The client's name, for logs.
    pub name: &'a str,
}

/// Answers `Hello`; from here on frames have the chosen version. 128 bytes:
///
/// version (1), proof method (1), zero (2), instance (4), features (8), cluster (16), incarnation (8), map epoch (8), now (8), zero (8), nonce
/// (32), proof (32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelloAck {
    /// The version of all later frames in both directions.
    pub version: u8,
    /// The instance that answers.
    pub instance: InstanceId,
    /// The features that both sides support.
    pub features: Features,
    /// The server's cluster.
    pub cluster: ClusterId,
    /// The start of the server's process.
    pub incarnation: Incarnation,
    /// The epoch of the server's map.
    pub map_epoch: MapEpoch,
    /// The server's time.
    pub now: Timestamp,
    /// The server's proof, and its nonce for the client's proof.
    pub proof: Proof,
}

/// The client's proof, which follows a `HelloAck` with a method. 32 bytes: proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prove {
    /// The proof from [`crate::auth`].
    pub proof: [u8; 32],
}

/// Checks whether the peer is alive. 8 bytes: map epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ping {
    /// The epoch of the sender's map.
    pub map_epoch: MapEpoch,
}

/// The answer to a ping. 16 bytes: map epoch, now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pong {
    /// The epoch of the sender's map.
    pub map_epoch: MapEpoch,
    /// The sender's time.
    pub now: Timestamp,
}

impl<'a> Hello<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<&'a [u8], Failure<'static>> {
        let name_len = check_name(self.name.as_bytes())?;
        let fields: [u8; 80] = layout(|to| {
            to.u8(self.version_min)
                .u8(self.version_max)
                .u8(self.proof_method)
                .u8(name_len)
                .zeros(4)
                .u64(self.features.0)
                .bytes(self.cluster.0)
                .u64(self.map_epoch.0)
                .zeros(8)
                .bytes(self.nonce)
        });
        out.extend_from_slice(&fields);
        Ok(self.name.as_bytes())
    }

    pub(crate) fn decode_body(body: &'a [u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<80>::split(body)?;
        let version_min = fields.u8();
        let version_max = fields.u8();
        let proof_method = fields.u8();
        let name_len = fields.u8();
        fields.zeros(4);
        let features = Features(fields.u64());
        let cluster = ClusterId(fields.bytes());
        let map_epoch = MapEpoch(fields.u64());
        fields.zeros(8);
        let nonce = fields.bytes();
        fields.done()?;
        let (name, rest) = split(rest, name_len.into())?;
        nothing_left(rest)?;
        check_name(name)?;
        let name = std::str::from_utf8(name).map_err(|_| BadRequestReason::NotText)?;
        Ok(Self { version_min, version_max, features, cluster, map_epoch, proof_method, nonce, name })
    }
}

fn check_name(name: &[u8]) -> Result<u8, Failure<'static>> {
    if name.len() > CLIENT_NAME_BYTES_MAX {
        let (length, limit) = (name.len() as u64, CLIENT_NAME_BYTES_MAX as u32);
        return Err(Failure::ValueTooLong { length, limit });
    }
    Ok(name.len() as u8)
}

impl HelloAck {
    pub(crate) fn encode(&self) -> [u8; 128] {
        layout(|to| {
            to.u8(self.version)
                .u8(self.proof.method)
                .zeros(2)
                .u32(self.instance.0)
                .u64(self.features.0)
                .bytes(self.cluster.0)
                .u64(self.incarnation.0)
                .u64(self.map_epoch.0)
                .u64(self.now.0)
                .zeros(8)
                .bytes(self.proof.nonce)
                .bytes(self.proof.proof)
        })
    }

    pub(crate) fn decode_body(body: &[u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<128>::split(body)?;
        let version = fields.u8();
        let method = fields.u8();
        fields.zeros(2);
        let instance = InstanceId(fields.u32());
        let features = Features(fields.u64());
        let cluster = ClusterId(fields.bytes());
        let incarnation = Incarnation(fields.u64());
        let map_epoch = MapEpoch(fields.u64());
        let now = Timestamp(fields.u64());
        fields.zeros(8);
        let proof = Proof { method, nonce: fields.bytes(), proof: fields.bytes() };
        fields.done()?;
        nothing_left(rest)?;
        Ok(Self { version, instance, features, cluster, incarnation, map_epoch, now, proof })
    }
}

impl Prove {
    pub(crate) fn decode_body(body: &[u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<32>::split(body)?;
        let proof = fields.bytes();
        fields.done()?;
        nothing_left(rest)?;
        Ok(Self { proof })
    }
}

impl Ping {
    pub(crate) fn encode(self) -> [u8; 8] {
        self.map_epoch.0.to_le_bytes()
    }

    pub(crate) fn decode_body(body: &[u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<8>::split(body)?;
        let map_epoch = MapEpoch(fields.u64());
        nothing_left(rest)?;
        Ok(Self { map_epoch })
    }
}

impl Pong {
    pub(crate) fn encode(self) -> [u8; 16] {
        layout(|to| to.u64(self.map_epoch.0).u64(self.now.0))
    }

    pub(crate) fn decode_body(body: &[u8]) -> Result<Self, Failure<'static>> {
        let (mut fields, rest) = FieldReader::<16>::split(body)?;
        let (map_epoch, now) = (MapEpoch(fields.u64()), Timestamp(fields.u64()));
        fields.done()?;
        nothing_left(rest)?;
        Ok(Self { map_epoch, now })
    }
}
