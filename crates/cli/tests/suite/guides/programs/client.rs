//! The programs of the client's guide.

use std::error::Error;

use zerohop_client::{Client, Keyspace, Record};

/// The endpoint of the cluster that the guide has started.
const ENDPOINT: &str = "127.0.0.1:7400";

async fn connected() -> Result<Client, zerohop_client::Error> {
    Client::connect(ENDPOINT).await
}

async fn default() -> Result<Keyspace, zerohop_client::Error> {
    connected().await?.keyspace("default").await
}

/// The contents of a record, as text; values of a list are separated by `|`.
async fn text(keyspace: &Keyspace, key: &str) -> Result<Option<String>, Box<dyn Error>> {
    let values = match keyspace.lookup(key).await? {
        None => return Ok(None),
        Some(Record::Bytes { bytes, .. }) => vec![bytes],
        Some(Record::List { values, .. }) => values,
    };
    let texts: Result<Vec<&str>, _> = values.iter().map(|value| std::str::from_utf8(value)).collect();
    Ok(Some(texts?.join("|")))
}

/// Runs on another thread, outside of the runtime.
fn on_own_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(work).join().expect("it has not panicked"))
}

crate::guides::programs::programs! {
    connects:
    shows {
        use std::time::Duration;
        use zerohop_client::{Client, ClientOptions};

        async fn example() -> Result<(), zerohop_client::Error> {
        let client = Client::connect("127.0.0.1:7400").await?;

        // Or with several endpoints, tried in turn, and other options.
        let options = ClientOptions { deadline: Duration::from_secs(2), ..ClientOptions::default() };
        let client = Client::connect_with(&["127.0.0.1:7400", "127.0.0.1:7402"], options).await?;
        let keyspace = client.keyspace("default").await?;
        Ok(())
        }
    }
    then { example().await?; }

    records:
    shows {
        use std::time::Duration;
        use zerohop_client::{Condition, Expiry, Keyspace, Range, Record, Transform, WaitUntil};

        async fn example(keyspace: &Keyspace) -> Result<(), zerohop_client::Error> {
        keyspace.insert("colour", "blue").await?;
        keyspace.insert("colour", "red").condition(Condition::IfPresent).await?;
        keyspace.insert_until("token", "abc", Expiry::AfterMs(60_000)).await?;
        let colour = keyspace.lookup_bytes("colour").await?;
        assert_eq!(colour.as_deref(), Some(&b"red"[..]));

        keyspace.append("log", &[b"first", b"second"]).await?;
        if let Some(Record::List { values, .. }) = keyspace.lookup_range("log", Range { start: -1, stop: i64::MAX }).await? {
            println!("the last of them: {:?}", values[0]);
        }
        keyspace.trim("log", Range { start: 1, stop: i64::MAX }).await?;

        let visits = keyspace.increment("visits", 1).await?;
        let total = keyspace.transform("sums", Transform::add(0.25_f64).at(8)).await?;  // a number inside a record
        keyspace.compare_swap("owner", None, Some(b"me")).await?;
        keyspace.persist("token").await?;
        let job: Option<Record> = keyspace.take("job").await?;  // removes it; of several clients one gets it
        let gone = keyspace.remove("colour").await?;

        // Waits on the server, not by asking again and again.
        let started = keyspace.wait("started", WaitUntil::Present).deadline(Duration::from_secs(30)).await?;
        Ok(())
        }
    }
    then {
        let keyspace = default().await?;
        let shown = example(&keyspace);
        let starts = async {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            keyspace.insert("started", "now").await
        };
        let (shown, starts) = tokio::join!(shown, starts);
        shown?;
        starts?;
        assert_eq!(text(&keyspace, "colour").await?, None);
        assert_eq!(text(&keyspace, "log").await?.as_deref(), Some("second"));
        assert_eq!(text(&keyspace, "visits").await?.as_deref(), Some("1"));
        assert_eq!(text(&keyspace, "owner").await?.as_deref(), Some("me"));
        assert_eq!(keyspace.ttl("token").await?, zerohop_client::Ttl::Never);
        let sums = keyspace.lookup_bytes("sums").await?.expect("it was made");
        assert_eq!(sums[..], [&[0; 8][..], &0.25_f64.to_le_bytes()[..]].concat());
    }

    blobs:
    shows {
        use zerohop_client::{Keyspace, Transform};

        async fn example(keyspace: &Keyspace) -> Result<(), zerohop_client::Error> {
        let film = keyspace.blob("films/1");
        film.create(b"title=Nemo").await?;
        film.write_at(0, b"header").await?;
        let at = film.extend(b"one more frame").await?;
        let frames: u64 = film.transform(Transform::add(1_u64).at(8)).await?;

        let mut pieces = film.read_at(0, u64::MAX).await?;      // streamed, in a few MiB of memory
        while let Some(piece) = pieces.next_piece().await? {
            println!("{} bytes, {} to come", piece.len(), pieces.left());
        }
        film.truncate(6).await?;
        if let Some(info) = film.stat().await? {
            println!("{} bytes, cut {} times", info.size, info.generation);
        }
        let mut names = keyspace.list_blobs("films/");
        while let Some(page) = names.next_page().await? {        // in the order of the names, over all partitions
            println!("{page:?}");
        }
        film.delete().await?;
        Ok(())
        }
    }
    then {
        let keyspace = default().await?;
        example(&keyspace).await?;
        assert!(keyspace.blob("films/1").stat().await?.is_none());
    }

    fills:
    shows {
        use zerohop_client::Keyspace;

        async fn example(keyspace: &Keyspace, source: &[&[u8]]) -> Result<(), zerohop_client::Error> {
        let film = keyspace.blob("films/2");
        film.create(b"").await?;
        let mut extension = film.staged_extension().await?;
        for piece in source {
            extension.push(piece).await?;                        // no reader sees it yet
        }
        extension.publish().await?;                              // and now all of it

        let (header, version) = film.read_with_version(0, 64).await?;
        film.write_at_if(&version, 0, &header).await?;           // `is_conflict` if another has written there meanwhile
        Ok(())
        }
    }
    then {
        let keyspace = default().await?;
        let pieces = [vec![b'a'; 3 << 20], vec![b'b'; 100]];
        example(&keyspace, &[&pieces[0], &pieces[1]]).await?;
        let film = keyspace.blob("films/2").read_at(0, u64::MAX).await?.read_to_end().await?;
        assert!(film[..] == pieces.concat(), "{} bytes", film.len());
    }

    many_at_once:
    shows {
        use zerohop_client::{Collect, Coalescing, Keyspace};

        async fn example(keyspace: &Keyspace) -> Result<(), zerohop_client::Error> {
        let collecting = Coalescing::Within(Collect { delay_us: 1000, bytes: 64 << 10 });
        keyspace.insert("sample", "17").collecting(collecting).await?;

        let mut scan = keyspace.scan("user:");
        while let Some(keys) = scan.next_page().await? {
            for key in keys {
                println!("{:?} at version {}", key.key, key.version);
            }
        }
        Ok(())
        }
    }
    then {
        let keyspace = default().await?;
        keyspace.insert("user:1", "anna").await?;
        example(&keyspace).await?;
        assert_eq!(text(&keyspace, "sample").await?.as_deref(), Some("17"));
    }

    ranges:
    shows {
        async fn example(events: &zerohop_client::Keyspace) -> Result<(), zerohop_client::Error> {
        let mut scan = events.scan_range("2026-02".."2026-03").values().limit(100);
        while let Some(keys) = scan.next_page().await? {
            for key in keys {
                println!("{:?} is {:?}", key.key, key.value);
            }
        }
        let last = events.scan_range::<&str>(..).prefix("2026-02").reverse().limit(1).next_page().await?;
        Ok(())
        }
    }
    then { example(&connected().await?.keyspace("events").await?).await?; }

    transfers:
    shows {
        use zerohop_client::{Client, Error, Keyspace};

        async fn example(client: &Client, accounts: &Keyspace, audit: &Keyspace) -> Result<(), Error> {
        let left = client
            .transaction(|tx| async move {
                let balance = tx.get(accounts, "anna").await?.unwrap_or_default();
                let balance: i64 = std::str::from_utf8(&balance).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
                if balance < 10 {
                    tx.abort();
                    return Ok(None);
                }
                tx.write(accounts.increment("anna", -10))?;
                tx.write(accounts.increment("ben", 10))?;
                tx.write(audit.append("transfers", &[b"anna to ben: 10"]))?;
                Ok(Some(balance - 10))
            })
            .await?;
        Ok(())
        }
    }
    then {
        let client = connected().await?;
        let (accounts, audit) = (client.keyspace("default").await?, client.keyspace("audit").await?);
        accounts.insert("anna", "15").await?;
        // The second time the balance is too low.
        for _ in 0..2 {
            example(&client, &accounts, &audit).await?;
            assert_eq!(text(&accounts, "anna").await?.as_deref(), Some("5"));
            assert_eq!(text(&accounts, "ben").await?.as_deref(), Some("10"));
            assert_eq!(text(&audit, "transfers").await?.as_deref(), Some("anna to ben: 10"));
        }
    }

    step_by_step:
    shows {
        use zerohop_client::{Client, Condition, Error, Keyspace};

        async fn example(client: &Client, keyspace: &Keyspace) -> Result<(), Error> {
        let tx = client.begin();
        let colour = tx.get(keyspace, "colour").await?;
        tx.write(keyspace.insert("owner", "me").condition(Condition::IfAbsent))?;
        let visits = tx.write(keyspace.increment("visits", 1))?;
        match tx.commit().await {
            Ok(committed) => println!("visit {} at version {}", committed.result(&visits)?, committed.version()),
            Err(error) if error.is_conflict() => println!("others were in the way; nothing was done: {error}"),
            Err(error) if error.is_unknown() => println!("done whole, or not at all: {error}"),
            Err(error) => println!("not done: {error}"),
        }
        Ok(())
        }
    }
    then {
        let client = connected().await?;
        let keyspace = client.keyspace("default").await?;
        keyspace.insert("visits", "41").await?;
        keyspace.remove("owner").await?;
        // The second time the name is in use.
        for _ in 0..2 {
            example(&client, &keyspace).await?;
            assert_eq!(text(&keyspace, "owner").await?.as_deref(), Some("me"));
            assert_eq!(text(&keyspace, "visits").await?.as_deref(), Some("42"));
        }
    }

    extends_with_index:
    shows {
        use zerohop_client::{Client, Error, Keyspace};

        async fn example(client: &Client, keyspace: &Keyspace, record: &[u8]) -> Result<(), Error> {
        client
            .transaction(|tx| async move {
                let journal = tx.blob(keyspace, "journal");
                if journal.stat().await?.is_none() {
                    journal.create(b"").await?;                      // nothing extends what is not there
                }
                let at = journal.extend(record.to_vec()).await?;
                tx.write(keyspace.append("index", &[at.to_string().as_bytes()]))?;
                Ok(())
            })
            .await?;
        Ok(())
        }
    }
    then {
        let client = connected().await?;
        let keyspace = client.keyspace("default").await?;
        example(&client, &keyspace, b"one").await?;
        example(&client, &keyspace, b"two").await?;
        assert_eq!(text(&keyspace, "index").await?.as_deref(), Some("0|3"));
        let journal = keyspace.blob("journal").read_at(0, u64::MAX).await?.read_to_end().await?;
        assert_eq!(journal[..], *b"onetwo");
    }

    stages:
    shows {
        use zerohop_client::{Client, Error, Keyspace};

        async fn example(client: &Client, keyspace: &Keyspace, pieces: &[Vec<u8>]) -> Result<(), Error> {
        let tx = client.begin();
        for (number, piece) in pieces.iter().enumerate() {
            tx.stage(keyspace.insert(&format!("piece-{number}"), piece)).await?;
        }
        tx.commit().await?;
        Ok(())
        }
    }
    then {
        let client = connected().await?;
        let keyspace = client.keyspace("default").await?;
        example(&client, &keyspace, &[b"first".to_vec(), vec![0; 2 << 20]]).await?;
        assert_eq!(text(&keyspace, "piece-0").await?.as_deref(), Some("first"));
        assert_eq!(keyspace.lookup_bytes("piece-1").await?.map(|piece| piece.len()), Some(2 << 20));
    }

    reads_many:
    shows {
        use zerohop_client::{Client, Error, Keyspace};

        async fn example(client: &Client, users: &Keyspace, groups: &Keyspace) -> Result<(), Error> {
        let found = users.read_many(&["anna", "ben"]).await?;
        let found = client.read_many(&[(users, "anna"), (groups, "admins")]).await?;
        Ok(())
        }
    }
    then {
        let client = connected().await?;
        example(&client, &client.keyspace("default").await?, &client.keyspace("audit").await?).await?;
    }

    snapshots:
    shows {
        use zerohop_client::{Client, Keyspace};
        async fn example(client: &Client, accounts: &Keyspace, audit: &Keyspace) -> Result<(), zerohop_client::Error> {
        let snapshot = client.snapshot(&[accounts, audit]).await?;
        let mut scan = snapshot.scan(accounts, "");
        while let Some(page) = scan.next_page().await? {
            let keys: Vec<_> = page.iter().map(|one| (accounts, &one.key)).collect();
            for record in snapshot.read_many(&keys).await? {
                println!("{record:?}");
            }
        }
        if let Some(report) = snapshot.blob(audit, "report").await? {
            let mut read = report.read_at(0, report.info().size);
            while let Some(piece) = read.next_piece().await? {
                println!("{} bytes", piece.len());
            }
        }
        snapshot.close().await?;
        Ok(())
        }
    }
    then {
        let client = connected().await?;
        let (accounts, audit) = (client.keyspace("default").await?, client.keyspace("audit").await?);
        audit.blob("report").create(b"").await?;
            audit.blob("report").extend(b"all is well").await?;
        example(&client, &accounts, &audit).await?;
    }

    errors:
    shows {
        use zerohop_client::{Condition, Failure, Keyspace};

        async fn example(keyspace: &Keyspace) {
        match keyspace.insert("lock", "me").condition(Condition::IfAbsent).await {
            Ok(version) => println!("mine since {version}"),
            Err(error) if matches!(error.failure(), Some(Failure::ConditionFailed { .. })) => println!("taken"),
            Err(error) if error.is_unknown() => println!("perhaps mine: {error}"),
            Err(error) => println!("not mine: {error}"),
        }
        }
    }
    then {
        let keyspace = default().await?;
        example(&keyspace).await;
        assert_eq!(text(&keyspace, "lock").await?.as_deref(), Some("me"));
        example(&keyspace).await;
    }

    without_a_runtime:
    shows {
        use zerohop_client::{BlockingClient, BlockingHandle};

        fn example() -> Result<(), zerohop_client::Error> {
        let client = BlockingClient::connect("127.0.0.1:7400")?;
        let keyspace = client.keyspace("default")?;
        keyspace.wait_for(keyspace.insert("colour", "blue"))?;
        let colour = keyspace.wait_for(keyspace.lookup_bytes("colour"))?;
        Ok(())
        }
    }
    then {
        on_own_thread(example)?;
        assert_eq!(text(&default().await?, "colour").await?.as_deref(), Some("blue"));
    }

    transactions_without_a_runtime:
    shows {
        use zerohop_client::{BlockingClient, BlockingHandle, BlockingKeyspace, Error};

        fn example(client: &BlockingClient, keyspace: &BlockingKeyspace) -> Result<(), Error> {
        keyspace.wait_for(keyspace.blob("colours").create(b""))?;
        client.transaction(|tx| {
            let colour = tx.get(keyspace, "colour")?;
            tx.insert(keyspace, "colour before", &colour.unwrap_or_default())?;
            tx.wait_for(tx.blob(keyspace, "colours").extend("green "))?;
            tx.insert(keyspace, "colour", "green")
        })?;
        Ok(())
        }
    }
    then {
        on_own_thread(|| {
            let client = zerohop_client::BlockingClient::connect(ENDPOINT)?;
            example(&client, &client.keyspace("default")?)
        })?;
        let keyspace = default().await?;
        assert_eq!(text(&keyspace, "colour before").await?.as_deref(), Some("blue"));
        assert_eq!(text(&keyspace, "colour").await?.as_deref(), Some("green"));
        let colours = keyspace.blob("colours").read_at(0, u64::MAX).await?.read_to_end().await?;
        assert_eq!(colours[..], *b"green ");
    }
}
