//! Blobs whose contents are replaced: a reader finds all of the old or all of the new contents,
//! wherever the writer is killed.

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::pin::pin;
use std::process::{ChildStdin, Stdio};
use std::task::Poll;

use rustix::process::{Signal, kill_process};
use zerohop_client::{Blob, BlobError, Client, Error, Keyspace, PutOptions, StagedContents, Transform};

use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, stderr, zerohop};
use crate::support::{patience, wait_for};

const MIB: usize = 1 << 20;

/// More than a put keeps in memory before it sends anything.
const LONG_BYTES: usize = 70 * MIB;

/// More chunks than one transaction removes; a put of so many does not keep them in memory.
const MANY_CHUNKS_BYTES: usize = 18 * MIB;

/// The names under which contents of the blob `b` wait.
fn staging() -> Vec<Vec<u8>> {
    b"abcdefghijklmnopq".iter().map(|slot| [b"\0zerohop staged\0", &[*slot][..], b"b"].concat()).collect()
}

fn repeated_byte(byte: u8, length: usize) -> Vec<u8> {
    vec![byte; length]
}

/// Runs with a client of one node, and its keyspace `default`.
fn with_client<F: Future<Output = ()>>(cluster: &ServingProgram, run: impl FnOnce(Client, Keyspace) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = patience::client(cluster.endpoint()).await.unwrap();
        let keyspace = client.keyspace("default").await.unwrap();
        run(client, keyspace).await;
    });
}

/// The number of names with staged contents of `b`.
fn staged(cluster: &ServingProgram) -> usize {
    let mut count = 0;
    with_client(cluster, |_client, keyspace| {
        let count = &mut count;
        async move { *count = staged_in(&keyspace).await }
    });
    count
}

async fn staged_in(keyspace: &Keyspace) -> usize {
    keyspace.stat_blobs(&staging()).await.unwrap().into_iter().flatten().count()
}

/// A writer's handle to what it has staged for a blob of the same keyspace.
fn place<'a>(keyspace: &'a Keyspace, staged: &StagedContents) -> Blob<'a> {
    keyspace.blob(staged.name.clone()).with_unfinished()
}

async fn read_blob(keyspace: &Keyspace) -> Vec<u8> {
    keyspace.blob("b").read_at(0, u64::MAX).await.unwrap().read_to_end().await.unwrap().to_vec()
}

fn begin(cluster: &ServingProgram, sent: &[u8]) -> (RunningProcess, ChildStdin) {
    begin_with(cluster, &["blob", "put", "b", "--replace"], sent)
}

fn begin_with(cluster: &ServingProgram, arguments: &[&str], sent: &[u8]) -> (RunningProcess, ChildStdin) {
    let mut command = zerohop(arguments);
    command.env("ZEROHOP_ENDPOINT", cluster.endpoint());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut putting = RunningProcess::start(&mut command);
    let mut stdin = putting.stdin.take().unwrap();
    stdin.write_all(sent).unwrap();
    (putting, stdin)
}

fn assert_is(cluster: &ServingProgram, bytes: &[u8]) {
    let got = cluster.run(&["blob", "get", "b"]);
    assert!(code(&got) == 0 && got.stdout == bytes, "{} bytes: {}", got.stdout.len(), stderr(&got));
    assert_eq!(cluster.json(&["blob", "stat", "b"])["finished"], true);
    assert_eq!(cluster.ok(&["blob", "ls"]), "b\n");
    assert_eq!(cluster.ok(&["blob", "ls", "--unfinished"]), "b\n");
}

#[test]
fn replaced_long_blob_is_atomic_at_any_kill() {
    let cluster = ServingProgram::in_memory();
    let (old, new) = (repeated_byte(1, LONG_BYTES), repeated_byte(2, LONG_BYTES));
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b"], &old)), 0);
    for (sent, signal) in
        [(MIB, Signal::KILL), (66 * MIB, Signal::KILL), (LONG_BYTES, Signal::KILL), (LONG_BYTES, Signal::INT)]
    {
        // This client sees what the killed writers have left, and nothing else.
        let left = staged(&cluster);
        let (mut putting, stdin) = begin(&cluster, &new[..sent]);
        if sent > 64 * MIB {
            wait_for("new contents", || staged(&cluster), |count| *count > left);
            assert_is(&cluster, &old);
        }
        kill_process(putting.pid(), signal).unwrap();
        putting.ended();
        drop(stdin);
        assert_is(&cluster, &old);
        // A put that is only interrupted removes what it has sent.
        let is_left = usize::from(sent > 64 * MIB && signal == Signal::KILL);
        assert_eq!(staged(&cluster), left + is_left, "{sent} {signal:?}");
    }
    for bytes in [&new, &old] {
        let left = staged(&cluster);
        let (putting, stdin) = begin(&cluster, bytes);
        drop(stdin);
        let ended = putting.output();
        assert_eq!((code(&ended), stderr(&ended).as_str()), (0, ""), "{ended:?}");
        assert_is(&cluster, bytes);
        assert!(staged(&cluster) <= left);
    }
}

#[test]
fn blob_removal_cleans_up_killed_writer_but_not_waiting_one() {
    let cluster = ServingProgram::in_memory();
    let put = ["blob", "put", "b", "--replace", "--chunk", "4KiB"];
    let sent = repeated_byte(1, MANY_CHUNKS_BYTES);
    assert_eq!(code(&cluster.run_with(&put, b"old")), 0);
    let (waiting, stdin) = begin_with(&cluster, &put, &sent);
    wait_for("the contents of a slow writer", || staged(&cluster), |count| *count == 1);
    let (mut killed, other) = begin_with(&cluster, &put, &sent);
    wait_for("the contents of a second writer", || staged(&cluster), |count| *count == 2);
    kill_process(killed.pid(), Signal::KILL).unwrap();
    killed.ended();
    drop(other);
    assert_eq!(cluster.ok(&["blob", "rm", "b"]), "");
    // It counts as dead once it has renewed nothing for some time.
    let remove = || {
        assert_eq!(code(&cluster.run(&["blob", "rm", "b"])), 1);
        staged(&cluster)
    };
    wait_for("only the contents of the slow writer", remove, |count| *count == 1);
    drop(stdin);
    let ended = waiting.output();
    assert_eq!((code(&ended), stderr(&ended).as_str()), (0, ""), "{ended:?}");
    assert_is(&cluster, &sent);
    assert_eq!(staged(&cluster), 0);
}

#[test]
fn overlapping_replacing_puts_take_effect_in_sequence() {
    let cluster = ServingProgram::in_memory();
    let put = ["blob", "put", "b", "--replace", "--chunk", "4KiB"];
    let contents: Vec<Vec<u8>> = (1..5).map(|byte| repeated_byte(byte, MANY_CHUNKS_BYTES)).collect();
    // Once with no blob of this name, and once with the last of these.
    for round in 0..2 {
        let begun: Vec<_> = contents.iter().map(|bytes| begin_with(&cluster, &put, bytes)).collect();
        wait_for("contents of all", || staged(&cluster), |count| *count == contents.len());
        for (at, (putting, stdin)) in begun.into_iter().enumerate() {
            drop(stdin);
            let ended = putting.output();
            assert_eq!((code(&ended), stderr(&ended).as_str()), (0, ""), "{round} {at}: {ended:?}");
            assert_is(&cluster, &contents[at]);
            match at {
                // A removal, a short put, and nothing come between.
                0 => assert_eq!(cluster.ok(&["blob", "rm", "b"]), ""),
                1 => {
                    let short = cluster.run_with(&["blob", "put", "b", "--replace"], b"short");
                    assert_eq!((code(&short), stderr(&short).as_str()), (0, ""));
                    assert_is(&cluster, b"short");
                }
                _ => {}
            }
        }
        assert_eq!(staged(&cluster), 0, "{round}");
    }
}

#[test]
fn concurrent_puts_and_removals_of_one_name_all_succeed() {
    let cluster = ServingProgram::in_memory();
    let contents: Vec<Vec<u8>> = [10, 3 * MIB, MANY_CHUNKS_BYTES]
        .iter()
        .zip(1..)
        .map(|(length, byte)| repeated_byte(byte, *length))
        .collect();
    for round in 0..4 {
        let put = ["blob", "put", "b", "--replace", "--chunk", "4KiB"];
        let mut running = Vec::new();
        for bytes in &contents {
            let (putting, stdin) = begin_with(&cluster, &put, bytes);
            running.push((putting, Some(stdin)));
            if round % 2 == 1 {
                let (removing, stdin) = begin_with(&cluster, &["blob", "rm", "b"], b"");
                running.push((removing, Some(stdin)));
            }
        }
        for (_, stdin) in &mut running {
            drop(stdin.take());
        }
        for (at, (process, _)) in running.into_iter().enumerate() {
            let ended = process.output();
            let is_removal = round % 2 == 1 && at % 2 == 1;
            let is_absent =
                is_removal && code(&ended) == 1 && stderr(&ended).contains("there is no such blob");
            assert!(code(&ended) == 0 || is_absent, "{round} {at}: {ended:?}");
        }
        let got = cluster.run(&["blob", "get", "b"]);
        let is_one = contents.contains(&got.stdout) && code(&got) == 0;
        let is_removed = round % 2 == 1 && code(&got) == 1;
        assert!(is_one || is_removed, "{round}: {} bytes, {}", got.stdout.len(), stderr(&got));
        assert_eq!(staged(&cluster), 0, "{round}");
    }
}

#[test]
fn concurrent_replacements_removals_and_reads_all_make_progress() {
    let cluster = ServingProgram::in_memory();
    with_client(&cluster, |_client, keyspace| async move {
        let replace = |byte: u8, is_staged: bool| {
            let keyspace = &keyspace;
            async move {
                let blob = keyspace.blob("b");
                for turn in 0..12 {
                    let bytes = repeated_byte(byte, 20_000 + usize::from(byte) + turn * 1000);
                    if is_staged {
                        let staged = blob.stage(Some(12), &[byte]).await.unwrap();
                        place(keyspace, &staged).write_at(0, &bytes).await.unwrap();
                        blob.bind(&staged, &[byte]).await.unwrap();
                    } else {
                        let options = PutOptions {
                            attributes: vec![byte].into(),
                            chunk_bits: Some(12),
                            replaces: true,
                        };
                        let mut put = blob.put(options);
                        put.push(&bytes).await.unwrap();
                        assert_eq!(put.publish().await.unwrap(), bytes.len() as u64);
                    }
                }
            }
        };
        let remove = async {
            for _ in 0..12 {
                keyspace.blob("b").delete().await.unwrap();
            }
        };
        let read = async {
            for _ in 0..40 {
                let reading = match keyspace.blob("b").read_at(0, u64::MAX).await {
                    Ok(reading) => reading.read_to_end().await,
                    Err(error) => Err(error),
                };
                match reading {
                    Ok(bytes) => {
                        assert!(!bytes.is_empty() && bytes.iter().all(|byte| *byte == bytes[0]));
                        assert_eq!((bytes.len() - 20_000 - usize::from(bytes[0])) % 1000, 0);
                    }
                    Err(error) => {
                        let is_changed = matches!(
                            error,
                            Error::Blob { why: BlobError::Absent | BlobError::ChangedMeanwhile, .. }
                        );
                        assert!(is_changed, "{error}");
                    }
                }
            }
        };
        tokio::join!(
            replace(1, true),
            replace(2, true),
            replace(3, true),
            replace(4, false),
            replace(5, false),
            remove,
            read
        );
        assert_eq!(staged_in(&keyspace).await, 0);
    });
}

#[test]
fn put_without_replace_is_refused_if_other_put_finished_first() {
    let cluster = ServingProgram::in_memory();
    let sent = repeated_byte(1, MANY_CHUNKS_BYTES);
    let exists = "zerohop: blob \"b\": there is one of this name already: --replace replaces it\n";
    let (putting, stdin) = begin_with(&cluster, &["blob", "put", "b", "--chunk", "4KiB"], &sent);
    let is_begun = || cluster.ok(&["blob", "ls", "--unfinished"]);
    wait_for("an unfinished blob", is_begun, |names| !names.is_empty());
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--replace"], b"other")), 0);
    drop(stdin);
    let ended = putting.output();
    assert_eq!((code(&ended), stderr(&ended).as_str()), (1, exists), "{ended:?}");
    assert_is(&cluster, b"other");
}

/// Polls a future this many times and drops it; `None`: it had not ended.
async fn poll_and_drop<T>(future: impl Future<Output = T>, steps: usize) -> Option<T> {
    let (mut future, mut polls) = (pin!(future), 0);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(ended) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(ended));
        }
        polls += 1;
        if polls > steps { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

#[test]
fn interrupted_publish_leaves_old_or_new_contents_for_all_handles() {
    let cluster = ServingProgram::in_memory();
    with_client(&cluster, |_client, keyspace| async move {
        let (blob, remembering) = (keyspace.blob("b"), keyspace.blob("b"));
        let unused = blob.stage(None, b"").await.unwrap();
        assert!(blob.stat().await.unwrap().is_none() && staged_in(&keyspace).await == 1);
        blob.unstage(&unused).await.unwrap();
        blob.create_with(12, &[0]).await.unwrap();
        blob.write_at(0, &repeated_byte(0, 10_000)).await.unwrap();
        let mut now = 0;
        for replaced in 1..4 {
            for steps in 0.. {
                let new = replaced * 50 + steps as u8 + 1;
                assert_eq!(
                    remembering.read_at(0, 100).await.unwrap().read_to_end().await.unwrap(),
                    repeated_byte(now, 100)
                );
                let staged = blob.stage(Some(13), b"").await.unwrap();
                let place = place(&keyspace, &staged);
                place.write_at(0, &repeated_byte(new, 20_000 + usize::from(new))).await.unwrap();
                assert_eq!(staged_in(&keyspace).await, 1);
                let ended = poll_and_drop(blob.bind(&staged, &[new]), steps).await;
                let found = read_blob(&keyspace).await;
                if found[0] == new {
                    now = new;
                }
                let length = if now == new { 20_000 + usize::from(new) } else { found.len() };
                assert!(
                    found == repeated_byte(now, length),
                    "{steps}: {} bytes of {}",
                    found.len(),
                    found[0]
                );
                let info = blob.stat().await.unwrap().expect("is there");
                // The commit may have been under way at the read.
                assert!(
                    info.finished && matches!(info.attributes[..], [one] if one == now || one == new),
                    "{steps}: {info:?}"
                );
                if let Some(ended) = ended {
                    assert_eq!((ended.unwrap(), now), (20_000 + u64::from(new), new));
                    break;
                }
                blob.unstage(&staged).await.unwrap();
                // The commit may have been under way.
                now = read_blob(&keyspace).await[0];
            }
            assert_eq!(staged_in(&keyspace).await, 0);
            // A handle with the old header writes into the new contents.
            remembering.write_at(5, b"late").await.unwrap();
            assert_eq!(&read_blob(&keyspace).await[4..10], [now, b'l', b'a', b't', b'e', now]);
            remembering.write_at(5, &[now; 4]).await.unwrap();
        }
        // Of two that stage for the same blob, the one that binds later stays.
        let first = blob.stage(None, b"").await.unwrap();
        let second = blob.stage(None, b"").await.unwrap();
        blob.bind(&second, b"second").await.unwrap();
        blob.bind(&first, b"first").await.unwrap();
        assert_eq!(blob.stat().await.unwrap().unwrap().attributes, b"first"[..]);
        // What is bound or removed cannot be bound.
        let gone = blob.bind(&first, b"").await.unwrap_err();
        assert!(matches!(gone, Error::Blob { why: BlobError::Contended, .. }), "{gone}");
        assert!(gone.to_string().starts_with("blob \"b\": "), "{gone}");
        assert_eq!(staged_in(&keyspace).await, 0);
    });
}

#[test]
fn replaced_contents_are_changed_cut_extended_and_copied_as_any() {
    let cluster = ServingProgram::in_memory();
    with_client(&cluster, |client, keyspace| async move {
        let blob = keyspace.blob("b");
        blob.create_with(12, b"first").await.unwrap();
        blob.extend(&repeated_byte(1, 30_000)).await.unwrap();
        let staged = blob.stage(Some(12), b"own").await.unwrap();
        let place = place(&keyspace, &staged);
        place.write_at(0, &repeated_byte(9, 9000)).await.unwrap();
        // The generation of the staged contents differs from that of the future header.
        place.truncate(10).await.unwrap();
        let mut model = repeated_byte(9, 10);
        blob.bind(&staged, b"own").await.unwrap();
        blob.set_attributes(b"other").await.unwrap();
        blob.extend(&repeated_byte(2, 10_000)).await.unwrap();
        model.extend(repeated_byte(2, 10_000));
        blob.write_at(4090, &repeated_byte(3, 5000)).await.unwrap();
        model[4090..9090].fill(3);
        let mut extension = blob.staged_extension().await.unwrap();
        extension.push(&repeated_byte(4, 20_000)).await.unwrap();
        extension.publish_with(b"filled").await.unwrap();
        model.extend(repeated_byte(4, 20_000));
        blob.truncate(25_000).await.unwrap();
        model.truncate(25_000);
        blob.truncate(26_000).await.unwrap();
        model.resize(26_000, 0);
        assert_eq!(blob.transform(Transform::<u8>::add(1).at(3)).await.unwrap(), 10);
        model[3] = 10;
        client
            .transaction(|transaction| {
                let there = transaction.blob(&keyspace, "b");
                async move {
                    assert_eq!(there.read(4088, 4).await?, [2, 2, 3, 3][..]);
                    there.write(8190, repeated_byte(5, 4)).await?;
                    there.truncate(25_500).await?;
                    there.set_attributes(b"transacted").await
                }
            })
            .await
            .unwrap();
        model[8190..8194].fill(5);
        model.truncate(25_500);
        assert!(read_blob(&keyspace).await == model);
        let info = blob.stat().await.unwrap().expect("is there");
        assert_eq!((&info.attributes[..], info.size, info.chunk_bytes), (&b"transacted"[..], 25_500, 4096));
        let snapshot = client.snapshot(&[&keyspace]).await.unwrap();
        let old = snapshot.blob(&keyspace, "b").await.unwrap().expect("is there");
        assert_eq!((&old.info().attributes[..], old.info().finished), (&b"transacted"[..], true));
        let (bytes, seen) = blob.read_with_version(0, 8).await.unwrap();
        assert_eq!(bytes, model[..8]);
        blob.write_at_if(&seen, 0, b"seen").await.unwrap();
        blob.replace(b"short", Some(b"replaced")).await.unwrap();
        assert_eq!(read_blob(&keyspace).await, b"short");
        let (mut pieces, mut copy) = (old.read_at(0, u64::MAX), Vec::new());
        while let Some(piece) = pieces.next_piece().await.unwrap() {
            copy.extend_from_slice(&piece);
        }
        assert!(copy == model, "the snapshot has changed");
        // A short put stores the contents under the name itself again.
        let mut put = blob.put(PutOptions { replaces: true, ..PutOptions::default() });
        put.push(b"direct").await.unwrap();
        put.publish().await.unwrap();
        assert_eq!(read_blob(&keyspace).await, b"direct");
        assert!(blob.delete().await.unwrap() && blob.stat().await.unwrap().is_none());
        assert_eq!(staged_in(&keyspace).await, 0);
    });
}

/// How the version that a reader has begun with is replaced during the read.
#[derive(Clone, Copy, Debug)]
enum Replacement {
    /// By a put that is staged.
    Bind,
    /// By a put in one transaction.
    Put,
    /// By new contents under the same header.
    Replace,
    Delete,
}

#[test]
fn reader_of_replaced_blob_finishes_the_version_with_which_it_began() {
    let cluster = ServingProgram::in_memory();
    with_client(&cluster, |_client, keyspace| async move {
        let blob = keyspace.blob("b");
        let endings = [
            Replacement::Bind,
            Replacement::Bind,
            Replacement::Put,
            Replacement::Replace,
            Replacement::Delete,
        ];
        // Longer than the bytes that a stream reads ahead, and shorter.
        let runs = [40 * MIB, 6 * MIB].into_iter().flat_map(|bytes| endings.map(|ending| (bytes, ending)));
        for (bytes, ending) in runs {
            let mut put = blob.put(PutOptions { replaces: true, ..PutOptions::default() });
            put.push(&repeated_byte(1, bytes)).await.unwrap();
            put.publish().await.unwrap();
            let mut pieces = keyspace.blob("b").read_at(0, u64::MAX).await.unwrap();
            let mut all = pieces.next_piece().await.unwrap().expect("a piece").to_vec();
            let new = repeated_byte(2, 40 * MIB);
            match ending {
                Replacement::Bind => {
                    let staged = blob.stage(None, b"").await.unwrap();
                    place(&keyspace, &staged).write_at(0, &new).await.unwrap();
                    blob.bind(&staged, b"").await.unwrap();
                }
                Replacement::Put => {
                    let mut put = blob.put(PutOptions { replaces: true, ..PutOptions::default() });
                    put.push(&new).await.unwrap();
                    put.publish().await.unwrap();
                }
                Replacement::Replace => blob.replace(&new, None).await.unwrap(),
                Replacement::Delete => assert!(blob.delete().await.unwrap()),
            }
            match ending {
                Replacement::Delete => assert!(blob.stat().await.unwrap().is_none()),
                _ => assert!(read_blob(&keyspace).await == new),
            }
            while let Some(piece) = pieces.next_piece().await.unwrap() {
                all.extend_from_slice(&piece);
            }
            assert!(all == repeated_byte(1, bytes), "bytes of another blob: {bytes}, {ending:?}");
        }
    });
}

#[test]
fn streams_that_are_dropped_leave_their_snapshots_to_later_ones() {
    let cluster = ServingProgram::in_memory();
    with_client(&cluster, |_client, keyspace| async move {
        let blob = keyspace.blob("b");
        let mut put = blob.put(PutOptions { replaces: true, ..PutOptions::default() });
        put.push(&repeated_byte(1, 20 * MIB)).await.unwrap();
        put.publish().await.unwrap();
        // More than a partition keeps at a time.
        for _ in 0..80 {
            blob.read_at(0, u64::MAX).await.unwrap().next_piece().await.unwrap().expect("a piece");
        }
        let mut pieces = blob.read_at(0, u64::MAX).await.unwrap();
        let mut bytes = pieces.next_piece().await.unwrap().expect("a piece").len();
        blob.delete().await.unwrap();
        while let Some(piece) = pieces.next_piece().await.unwrap() {
            bytes += piece.len();
        }
        assert_eq!(bytes, 20 * MIB);
    });
}

#[test]
fn program_that_reads_a_blob_into_a_slow_pipe_prints_the_old_version() {
    let cluster = ServingProgram::in_memory();
    let (old, new) = (repeated_byte(1, LONG_BYTES), repeated_byte(2, LONG_BYTES));
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b"], &old)), 0);
    let mut reader = RunningProcess::start(
        zerohop(&["blob", "get", "b", "--endpoint", cluster.endpoint()]).stdout(Stdio::piped()),
    );
    let mut out = reader.stdout.take().unwrap();
    let mut read = vec![0; MIB];
    out.read_exact(&mut read).unwrap();
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--replace"], &new)), 0);
    assert_is(&cluster, &new);
    out.read_to_end(&mut read).unwrap();
    assert!(read == old, "{} bytes of the old version", read.iter().filter(|byte| **byte == 1).count());
    assert!(reader.ended().success());
}

#[test]
fn blob_of_many_chunks_is_replaced_atomically_then_cleaned_up() {
    let cluster = ServingProgram::in_memory();
    let long = repeated_byte(7, MANY_CHUNKS_BYTES);
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--chunk", "4KiB"], &long)), 0);
    // The contents are under the name itself, in one slot, and in the other.
    for byte in 8..11 {
        let bytes = repeated_byte(byte, MANY_CHUNKS_BYTES);
        let put = cluster.run_with(&["blob", "put", "b", "--chunk", "4KiB", "--replace"], &bytes);
        assert_eq!(code(&put), 0, "{put:?}");
        assert_is(&cluster, &bytes);
        assert_eq!(staged(&cluster), 0);
    }
    with_client(&cluster, |_client, keyspace| async move {
        // Interrupted at any step, also among the remaining chunks.
        let blob = keyspace.blob("b");
        for steps in [1, 5, 10, 20, 40] {
            let staged = blob.stage(Some(12), b"").await.unwrap();
            let place = place(&keyspace, &staged);
            place.write_at(0, &repeated_byte(steps as u8, MANY_CHUNKS_BYTES)).await.unwrap();
            let before = read_blob(&keyspace).await[0];
            poll_and_drop(blob.bind(&staged, b""), steps).await;
            blob.unstage(&staged).await.unwrap();
            let found = read_blob(&keyspace).await;
            assert!(
                found == repeated_byte(found[0], MANY_CHUNKS_BYTES)
                    && [before, steps as u8].contains(&found[0]),
                "{steps}"
            );
        }
        assert!(blob.delete().await.unwrap());
        assert_eq!(staged_in(&keyspace).await, 0);
        // None of the remaining chunks becomes visible again.
        blob.create_with(12, b"").await.unwrap();
        blob.truncate(MANY_CHUNKS_BYTES as u64).await.unwrap();
        assert!(read_blob(&keyspace).await == repeated_byte(0, MANY_CHUNKS_BYTES));
    });
}
