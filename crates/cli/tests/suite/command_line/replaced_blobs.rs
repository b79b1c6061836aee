//! Blobs whose contents are replaced: a reader finds all of the old or all of the new contents,
//! wherever the writer is killed.

use std::future::Future;
use std::io::Write as _;
use std::pin::pin;
use std::process::{ChildStdin, Stdio};
use std::task::Poll;

use rustix::process::{Signal, kill_process};
use zerohop_client::{BlobTrouble, Client, Error, Keyspace, PutOptions, Transform};

use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, stderr, zerohop};
use crate::support::{patience, wait_for};

const MIB: usize = 1 << 20;

/// More than a put keeps in memory before it sends anything.
const LONG_BYTES: usize = 70 * MIB;

/// The names of staged contents of the blob `b`.
const STAGING: [&[u8]; 3] = [b"\0zerohop staged\0ab", b"\0zerohop staged\0bb", b"\0zerohop staged\0db"];

fn filled(byte: u8, length: usize) -> Vec<u8> {
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
    keyspace.stat_blobs(&STAGING).await.unwrap().into_iter().flatten().count()
}

async fn whole(keyspace: &Keyspace) -> Vec<u8> {
    keyspace.blob("b").read_at(0, u64::MAX).await.unwrap().read_to_end().await.unwrap().to_vec()
}

fn begin(cluster: &ServingProgram, sent: &[u8]) -> (RunningProcess, ChildStdin) {
    let mut command = zerohop(&["blob", "put", "b", "--replace"]);
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
fn a_long_blob_is_whole_wherever_the_put_that_replaces_it_is_killed() {
    let cluster = ServingProgram::in_memory();
    let (old, new) = (filled(1, LONG_BYTES), filled(2, LONG_BYTES));
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b"], &old)), 0);
    for (sent, signal) in
        [(MIB, Signal::KILL), (66 * MIB, Signal::KILL), (LONG_BYTES, Signal::KILL), (LONG_BYTES, Signal::INT)]
    {
        let (mut putting, stdin) = begin(&cluster, &new[..sent]);
        if sent > 64 * MIB {
            wait_for("new contents", || staged(&cluster), |count| *count == 1);
            assert_is(&cluster, &old);
        }
        kill_process(putting.pid(), signal).unwrap();
        putting.ended();
        drop(stdin);
        assert_is(&cluster, &old);
        // An interrupted writer removes what it has sent.
        assert_eq!(
            staged(&cluster),
            usize::from(sent > 64 * MIB && signal == Signal::KILL),
            "{sent} {signal:?}"
        );
    }
    for (bytes, replaced) in [(&new, "direct"), (&old, "in a slot")] {
        let (putting, stdin) = begin(&cluster, bytes);
        wait_for("new contents", || staged(&cluster), |count| *count == 1);
        drop(stdin);
        let ended = putting.output();
        assert_eq!((code(&ended), stderr(&ended).as_str()), (0, ""), "{replaced}: {ended:?}");
        assert_is(&cluster, bytes);
        assert_eq!(staged(&cluster), 0, "{replaced}");
    }
    // Data that a killed writer has left is removed with the blob.
    let (mut putting, stdin) = begin(&cluster, &new[..66 * MIB]);
    wait_for("new contents", || staged(&cluster), |count| *count == 1);
    kill_process(putting.pid(), Signal::KILL).unwrap();
    putting.ended();
    drop(stdin);
    cluster.ok(&["blob", "rm", "b"]);
    assert_eq!((staged(&cluster), cluster.ok(&["blob", "ls", "--unfinished"]).as_str()), (0, ""));
}

/// Polls a future this many times and drops it; `None`: it had not ended.
async fn cut_off<T>(future: impl Future<Output = T>, steps: usize) -> Option<T> {
    let (mut future, mut taken) = (pin!(future), 0);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(ended) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(ended));
        }
        taken += 1;
        if taken > steps { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

#[test]
fn contents_are_old_or_new_wherever_binding_them_is_cut_off_and_no_handle_reads_or_writes_old_ones() {
    let cluster = ServingProgram::in_memory();
    with_client(&cluster, |_client, keyspace| async move {
        let (blob, remembering) = (keyspace.blob("b"), keyspace.blob("b"));
        assert_eq!(blob.stage(None, b"").await.unwrap(), None, "there is none to replace");
        blob.create_with(12, &[0]).await.unwrap();
        blob.write_at(0, &filled(0, 10_000)).await.unwrap();
        let mut now = 0;
        for replaced in 1..4 {
            for steps in 0.. {
                let new = replaced * 50 + steps as u8 + 1;
                assert_eq!(
                    remembering.read_at(0, 100).await.unwrap().read_to_end().await.unwrap(),
                    filled(now, 100)
                );
                let staged = blob.stage(Some(13), b"").await.unwrap().expect("there is one");
                let place = keyspace.blob(staged.name.clone()).with_unfinished();
                place.write_at(0, &filled(new, 20_000 + usize::from(new))).await.unwrap();
                assert_eq!(staged_in(&keyspace).await, 1);
                let ended = cut_off(blob.bind(&staged, &[new]), steps).await;
                let found = whole(&keyspace).await;
                if found[0] == new {
                    now = new;
                }
                let length = if now == new { 20_000 + usize::from(new) } else { found.len() };
                assert!(found == filled(now, length), "{steps}: {} bytes of {}", found.len(), found[0]);
                let info = blob.stat().await.unwrap().expect("is there");
                assert_eq!((info.finished, &info.attributes[..]), (true, &[now][..]), "{steps}");
                if let Some(ended) = ended {
                    assert_eq!((ended.unwrap(), now), (20_000 + u64::from(new), new));
                    break;
                }
            }
            assert_eq!(staged_in(&keyspace).await, 0);
            // A handle with the old header writes into the new contents.
            remembering.write_at(5, b"late").await.unwrap();
            assert_eq!(&whole(&keyspace).await[4..10], [now, b'l', b'a', b't', b'e', now]);
            remembering.write_at(5, &[now; 4]).await.unwrap();
        }
        // When another writer has staged for the same blob later, the first one loses.
        let first = blob.stage(None, b"").await.unwrap().expect("there is one");
        let second = blob.stage(None, b"").await.unwrap().expect("there is one");
        let beaten = blob.bind(&first, b"").await.unwrap_err();
        assert!(matches!(beaten, Error::Blob { why: BlobTrouble::Contended, .. }), "{beaten}");
        assert!(beaten.to_string().starts_with("blob \"b\": "), "{beaten}");
        blob.unstage(&second).await.unwrap();
        assert_eq!(staged_in(&keyspace).await, 0);
    });
}

#[test]
fn replaced_contents_are_changed_cut_appended_to_and_copied_as_any() {
    let cluster = ServingProgram::in_memory();
    with_client(&cluster, |client, keyspace| async move {
        let blob = keyspace.blob("b");
        blob.create_with(12, b"first").await.unwrap();
        blob.append(&filled(1, 30_000)).await.unwrap();
        let staged = blob.stage(Some(12), b"own").await.unwrap().expect("there is one");
        let place = keyspace.blob(staged.name.clone()).with_unfinished();
        place.write_at(0, &filled(9, 9000)).await.unwrap();
        // The generation of the staged contents differs from that of the future header.
        place.truncate(10).await.unwrap();
        let mut model = filled(9, 10);
        blob.bind(&staged, b"own").await.unwrap();
        blob.set_attributes(b"other").await.unwrap();
        blob.append(&filled(2, 10_000)).await.unwrap();
        model.extend(filled(2, 10_000));
        blob.write_at(4090, &filled(3, 5000)).await.unwrap();
        model[4090..9090].fill(3);
        let mut fill = blob.fill().await.unwrap();
        fill.push(&filled(4, 20_000)).await.unwrap();
        fill.publish_with(b"filled").await.unwrap();
        model.extend(filled(4, 20_000));
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
                    there.write(8190, filled(5, 4)).await?;
                    there.truncate(25_500).await?;
                    there.set_attributes(b"transacted").await
                }
            })
            .await
            .unwrap();
        model[8190..8194].fill(5);
        model.truncate(25_500);
        assert!(whole(&keyspace).await == model);
        let info = blob.stat().await.unwrap().expect("is there");
        assert_eq!((&info.attributes[..], info.size, info.chunk_bytes), (&b"transacted"[..], 25_500, 4096));
        let snapshot = client.snapshot(&[&keyspace]).await.unwrap();
        let old = snapshot.blob(&keyspace, "b").await.unwrap().expect("is there");
        assert_eq!((&old.info().attributes[..], old.info().finished), (&b"transacted"[..], true));
        let (bytes, seen) = blob.read_seen(0, 8).await.unwrap();
        assert_eq!(bytes, model[..8]);
        blob.write_at_if(&seen, 0, b"seen").await.unwrap();
        blob.replace(b"short", Some(b"replaced")).await.unwrap();
        assert_eq!(whole(&keyspace).await, b"short");
        let (mut pieces, mut copy) = (old.read_at(0, u64::MAX), Vec::new());
        while let Some(piece) = pieces.next_piece().await.unwrap() {
            copy.extend_from_slice(&piece);
        }
        assert!(copy == model, "the snapshot has changed");
        // A short put stores the contents under the name itself again.
        let mut put = blob.put(PutOptions { replaces: true, ..PutOptions::default() });
        put.push(b"direct").await.unwrap();
        put.publish().await.unwrap();
        assert_eq!(whole(&keyspace).await, b"direct");
        assert!(blob.delete().await.unwrap() && blob.stat().await.unwrap().is_none());
        assert_eq!(staged_in(&keyspace).await, 0);
    });
}

#[test]
fn a_reader_of_what_is_replaced_gets_old_bytes_and_then_an_error_of_its_own() {
    let cluster = ServingProgram::in_memory();
    with_client(&cluster, |_client, keyspace| async move {
        let blob = keyspace.blob("b");
        for (old, new) in [(1, 2), (2, 3)] {
            let mut put = blob.put(PutOptions { replaces: true, ..PutOptions::default() });
            put.push(&filled(old, 40 * MIB)).await.unwrap();
            put.publish().await.unwrap();
            let mut pieces = keyspace.blob("b").read_at(0, u64::MAX).await.unwrap();
            let first = pieces.next_piece().await.unwrap().expect("a piece");
            assert!(first.iter().all(|byte| *byte == old));
            let staged = blob.stage(None, b"").await.unwrap().expect("there is one");
            let place = keyspace.blob(staged.name.clone()).with_unfinished();
            place.write_at(0, &filled(new, 40 * MIB)).await.unwrap();
            blob.bind(&staged, b"").await.unwrap();
            let error = loop {
                match pieces.next_piece().await {
                    Ok(Some(piece)) => {
                        assert!(piece.iter().all(|byte| *byte == old), "bytes of another blob")
                    }
                    Ok(None) => panic!("all of a blob that is not there any more"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::Blob { why: BlobTrouble::ChangedMeanwhile, .. }), "{error}");
            assert!(whole(&keyspace).await == filled(new, 40 * MIB));
        }
    });
}

#[test]
fn more_chunks_than_go_at_once_are_replaced_by_one_step_and_then_removed() {
    let cluster = ServingProgram::in_memory();
    let long = filled(7, 4100 * 4096);
    assert_eq!(code(&cluster.run_with(&["blob", "put", "b", "--chunk", "4KiB"], &long)), 0);
    // The contents are under the name itself, in one slot, and in the other.
    for byte in 8..11 {
        let bytes = filled(byte, 4100 * 4096);
        let put = cluster.run_with(&["blob", "put", "b", "--chunk", "4KiB", "--replace"], &bytes);
        assert_eq!(code(&put), 0, "{put:?}");
        assert_is(&cluster, &bytes);
        assert_eq!(staged(&cluster), 0);
    }
    with_client(&cluster, |_client, keyspace| async move {
        // Interrupted at any step, also among the remaining chunks.
        let blob = keyspace.blob("b");
        for steps in [1, 5, 10, 20, 40] {
            let staged = blob.stage(Some(12), b"").await.unwrap().expect("there is one");
            let place = keyspace.blob(staged.name.clone()).with_unfinished();
            place.write_at(0, &filled(steps as u8, 4100 * 4096)).await.unwrap();
            let before = whole(&keyspace).await[0];
            cut_off(blob.bind(&staged, b""), steps).await;
            let found = whole(&keyspace).await;
            assert!(
                found == filled(found[0], 4100 * 4096) && [before, steps as u8].contains(&found[0]),
                "{steps}"
            );
        }
        assert!(blob.delete().await.unwrap());
        assert_eq!(staged_in(&keyspace).await, 0);
        // None of the remaining chunks becomes visible again.
        blob.create_with(12, b"").await.unwrap();
        blob.truncate(4100 * 4096).await.unwrap();
        assert!(whole(&keyspace).await == filled(0, 4100 * 4096));
    });
}
