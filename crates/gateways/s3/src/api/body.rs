//! Bodies of requests into blobs, with their checksums, and blobs into bodies of responses.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use hyper::HeaderMap;
use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::StreamingBlob;
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{S3ErrorCode, S3Result, TrailingHeaders};
use tokio::sync::mpsc;
use zerohop_objects::{BodyId, BodyRange, BodyWriter, Checksum, ETag, Lifetimes, Store, renew_body, run};

use super::errors;
use crate::base64;
use crate::checksum::{ALGORITHMS, Algorithm, Hasher};

/// The bytes that are added or read at once.
const PIECE: usize = 1 << 20;

/// What the request says about its body.
pub(super) struct DeclaredBody {
    length: Option<u64>,
    length_max: u64,
    md5: Option<Vec<u8>>,
    checksums: Vec<(Algorithm, Vec<u8>)>,
    announced: Vec<Algorithm>,
    trailers: Option<TrailingHeaders>,
    /// The algorithm whose checksum is stored.
    stored: Algorithm,
}

/// A body that was written.
pub(super) struct StoredBody {
    pub(super) size: u64,
    pub(super) etag: ETag,
    pub(super) checksum: Checksum,
}

impl DeclaredBody {
    /// Reads the headers of a request. `stored` is the algorithm of the upload, if the body is a part of one that has chosen.
    pub(super) fn new(
        headers: &HeaderMap,
        trailers: Option<TrailingHeaders>,
        length: Option<i64>,
        length_max: u64,
        stored: Option<Algorithm>,
    ) -> S3Result<Self> {
        let invalid = || errors::refuse(S3ErrorCode::InvalidDigest, "A digest of the headers is malformed.");
        let md5 = match headers.get("content-md5") {
            None => None,
            Some(text) => {
                let bytes = text.to_str().ok().and_then(base64::decode).filter(|bytes| bytes.len() == 16);
                Some(bytes.ok_or_else(invalid)?)
            }
        };
        let checksums = checksums_of(headers).ok_or_else(|| {
            errors::refuse(S3ErrorCode::InvalidRequest, "A checksum of the headers is malformed.")
        })?;
        let announced = headers.get_all("x-amz-trailer").iter().filter_map(|names| names.to_str().ok());
        let announced: Vec<Algorithm> = announced
            .flat_map(|names| names.split(','))
            .filter_map(|name| {
                ALGORITHMS.into_iter().find(|one| one.header().eq_ignore_ascii_case(name.trim()))
            })
            .collect();
        let length = length.and_then(|length| u64::try_from(length).ok());
        if length.is_some_and(|length| length > length_max) {
            return Err(errors::refuse(S3ErrorCode::EntityTooLarge, "The body is too large."));
        }
        let choice = checksums.first().map(|(algorithm, _)| *algorithm).or(announced.first().copied());
        let stored = stored.or(choice).unwrap_or(Algorithm::Crc64Nvme);
        Ok(Self { length, length_max, md5, checksums, announced, trailers, stored })
    }
}

/// The checksums in headers or trailers; nothing if one is malformed.
fn checksums_of(headers: &HeaderMap) -> Option<Vec<(Algorithm, Vec<u8>)>> {
    let mut checksums = Vec::new();
    for algorithm in ALGORITHMS {
        if let Some(text) = headers.get(algorithm.header()) {
            checksums.push((algorithm, base64::decode(text.to_str().ok()?)?));
        }
    }
    Some(checksums)
}

/// Writes the body of a request. Nothing names the blob yet: after an error the sweep deletes it.
pub(super) async fn receive<S: Store>(
    store: &S,
    body: BodyId,
    mut until: u64,
    lifetimes: Lifetimes,
    idle: Duration,
    stream: Option<StreamingBlob>,
    expected: DeclaredBody,
) -> S3Result<StoredBody> {
    let mut algorithms: Vec<Algorithm> = expected.checksums.iter().map(|(algorithm, _)| *algorithm).collect();
    algorithms.extend(&expected.announced);
    algorithms.push(expected.stored);
    algorithms.sort();
    algorithms.dedup();
    let mut hashers: Vec<(Algorithm, Hasher)> =
        algorithms.into_iter().map(|algorithm| (algorithm, Hasher::new(algorithm))).collect();
    let mut md5 = Md5::new();
    let mut writer = store.write_body(body);
    let (mut size, mut pending) = (0_u64, Vec::new());
    if let Some(mut stream) = stream {
        loop {
            let next = poll_fn(|context| Pin::new(&mut stream).poll_next(context));
            let next = tokio::time::timeout(idle, next).await;
            let piece = match next {
                Err(_) => {
                    return Err(errors::refuse(
                        S3ErrorCode::RequestTimeout,
                        "The body stopped for too long.",
                    ));
                }
                Ok(None) => break,
                Ok(Some(Err(error))) => return Err(errors::of_body(error.as_ref())),
                Ok(Some(Ok(piece))) => piece,
            };
            size += piece.len() as u64;
            if size > expected.length_max {
                return Err(errors::refuse(S3ErrorCode::EntityTooLarge, "The body is too large."));
            }
            md5.update(&piece);
            hashers.iter_mut().for_each(|(_, hasher)| hasher.update(&piece));
            pending.extend_from_slice(&piece);
            // Also a slow body keeps its blob.
            if pending.len() >= PIECE || store.now() + lifetimes.pending / 2 > until {
                until = extend(store, &mut writer, (body, until), lifetimes, &mut pending).await?;
            }
        }
    }
    if expected.length.is_some_and(|length| length != size) {
        return Err(errors::refuse(
            S3ErrorCode::IncompleteBody,
            "The body has another length than announced.",
        ));
    }
    let md5 = md5.finalize();
    let values: Vec<(Algorithm, Vec<u8>)> =
        hashers.into_iter().map(|(algorithm, hasher)| (algorithm, hasher.finish())).collect();
    verify(&expected, &md5, &values)?;
    if size > 0 {
        extend(store, &mut writer, (body, until), lifetimes, &mut pending).await?;
        writer.finish().await.map_err(errors::of)?;
    }
    let value = values.into_iter().find(|(algorithm, _)| *algorithm == expected.stored);
    let value = value.map(|(_, value)| value).unwrap_or_default();
    Ok(StoredBody {
        size,
        etag: ETag { md5, parts: 0 },
        checksum: Checksum { algorithm: expected.stored as u8, composite: false, value },
    })
}

fn verify(expected: &DeclaredBody, md5: &[u8; 16], values: &[(Algorithm, Vec<u8>)]) -> S3Result<()> {
    let mut checksums = expected.checksums.clone();
    if !expected.announced.is_empty() {
        let trailers = expected.trailers.as_ref().and_then(TrailingHeaders::take).unwrap_or_default();
        let of_trailers = checksums_of(&trailers).ok_or_else(errors::malformed_trailer)?;
        let came = |requested: &Algorithm| of_trailers.iter().any(|(algorithm, _)| algorithm == requested);
        if !expected.announced.iter().all(came) {
            return Err(errors::malformed_trailer());
        }
        checksums.extend(of_trailers);
    }
    let is_wrong = |(algorithm, value): &(Algorithm, Vec<u8>)| {
        values.iter().any(|(one, computed)| one == algorithm && computed != value)
    };
    if expected.md5.as_ref().is_some_and(|requested| requested[..] != md5[..])
        || checksums.iter().any(is_wrong)
    {
        return Err(errors::refuse(S3ErrorCode::BadDigest, "A digest differs from that of the body."));
    }
    Ok(())
}

/// Adds what is pending to the body. Result: until when the body may be written.
async fn extend<S: Store>(
    store: &S,
    writer: &mut S::Writer,
    (body, mut until): (BodyId, u64),
    lifetimes: Lifetimes,
    pending: &mut Vec<u8>,
) -> S3Result<u64> {
    // Renewed in the second half of its time; never written behind its end.
    if store.now() + lifetimes.pending / 2 > until {
        until = run(store, renew_body(body, lifetimes)).await.map_err(errors::of)?;
    }
    if !pending.is_empty() {
        writer.extend(std::mem::take(pending)).await.map_err(errors::of)?;
    }
    Ok(until)
}

/// A stream of a known length whose pieces a task reads.
struct Pieces {
    receiver: mpsc::Receiver<std::io::Result<Bytes>>,
    left: u64,
}

impl Stream for Pieces {
    type Item = Result<Bytes, s3s::StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.receiver.poll_recv(context);
        if let Poll::Ready(Some(Ok(piece))) = &next {
            self.left = self.left.saturating_sub(piece.len() as u64);
        }
        next.map(|next| next.map(|piece| piece.map_err(Into::into)))
    }
}

impl ByteStream for Pieces {
    fn remaining_length(&self) -> RemainingLength {
        usize::try_from(self.left).map_or_else(|_| RemainingLength::unknown(), RemainingLength::new_exact)
    }
}

/// A body of the bytes of `ranges`. A read that fails breaks the connection: the client sees too few bytes.
pub(super) fn send<S: Store + 'static>(store: &Arc<S>, ranges: Vec<BodyRange>) -> StreamingBlob {
    let left = ranges.iter().map(|range| range.length).sum();
    let (sender, receiver) = mpsc::channel(2);
    let store = Arc::clone(store);
    tokio::spawn(async move {
        for range in ranges {
            let mut done = 0;
            while done < range.length {
                let length = (range.length - done).min(PIECE as u64);
                let piece = store.read_body(range.body, range.offset + done, length).await;
                let is_error = piece.is_err();
                let piece = piece.map(Bytes::from).map_err(std::io::Error::other);
                if sender.send(piece).await.is_err() || is_error {
                    return;
                }
                done += length;
            }
        }
    });
    StreamingBlob::new(Pieces { receiver, left })
}
