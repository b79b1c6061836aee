//! The Rust programs of the documents: compiled here, and run at their place in the guide, in the
//! folder and with the cluster of the commands before them.
//!
//! A guide's program runs like any other command: as this test program again, which reads the text,
//! finds the same text among the compiled programs, runs it, and checks its effects.

use std::error::Error;
use std::future::Future;
use std::io::Read as _;
use std::path::Path;
use std::pin::Pin;

use crate::guides::{GUIDES, block, root};

mod client;

/// Holds the path of this test program, in the environment of a guide's shell. If it is set,
/// [`TEST`] runs the program that it reads.
pub(crate) const VARIABLE: &str = "ZEROHOP_TEST_OF_GUIDES";

/// The test that runs a program of a guide.
pub(crate) const TEST: &str = "guides::programs::guide_program_behaves_as_documented";

type Outcome = Result<(), Box<dyn Error>>;

/// A program of a document.
struct Program {
    /// Its text in the document, without comments and spaces.
    text: String,
    run: fn() -> Pin<Box<dyn Future<Output = Outcome>>>,
}

/// Programs with their context: the `given` setup, the text that the document `shows`, verbatim,
/// and the checks afterwards (`then`).
macro_rules! programs {
    ($($name:ident: $(given { $($given:tt)* })? shows { $($shows:tt)* } then { $($then:tt)* })*) => {
        pub(super) fn programs() -> Vec<crate::guides::programs::Program> {
            vec![$(crate::guides::programs::Program {
                text: crate::guides::programs::bare(stringify!($($shows)*)),
                run: || Box::pin($name()),
            }),*]
        }
        $(
            #[allow(unused_variables, reason = "a program may show what it has and not use it")]
            async fn $name() -> crate::guides::programs::Outcome {
                $($($given)*)?
                $($shows)*
                $($then)*
                Ok(())
            }
        )*
    };
}
use programs;

mod short {
    crate::guides::programs::programs! {
        readme_connects:
        shows {
            let client = zerohop_client::Client::connect("127.0.0.1:7400").await?;
            let keyspace = client.keyspace("default").await?;
            keyspace.insert("colour", "blue").await?;
            let visits = keyspace.increment("visits", 1).await?;
        }
        then {
            assert_eq!(visits, 1);
            assert_eq!(keyspace.lookup_bytes("colour").await?.as_deref(), Some(&b"blue"[..]));
        }

        readme_stores:
        shows {
            let store = zerohop::open("data")?;
            store.insert("ship", "Nautilus")?;              // a record is bytes …
            store.extend("ship", ", submarine")?;
            store.append("crew", "Nemo")?;                    // … or a list of values
            assert_eq!(store.lookup("ship")?.as_deref(), Some(&b"Nautilus, submarine"[..]));
            store.close()?;
        }
        then {
            assert_eq!(zerohop::open("data")?.values("crew")?.map(|crew| crew.len()), Some(1));
        }

        embedded_stores:
        shows {
            let store = zerohop::open("data")?;
            store.insert("ship", "Nautilus")?;
            assert_eq!(store.lookup("ship")?.as_deref(), Some(&b"Nautilus"[..]));
            store.close()?;
        }
        then { assert!(zerohop::open("data")?.lookup("ship")?.is_some()); }

        embedded_lists_ranges:
        shows {
            let options = zerohop::Options { ordered: true, ..Default::default() };
            let events = zerohop::Store::open_with("events", &options)?;
            events.insert_many([("2026-02-01", "sun"), ("2026-01-30", "rain"), ("2026-02-09", "fog")])?;
            let february = events.scan_range("2026-02".."2026-03").values().collect::<Result<Vec<_>, _>>()?;
            assert_eq!(february[0].value.as_deref(), Some(&b"sun"[..]));
            let last = events.scan_range::<&str>(..).reverse().next().transpose()?;
            assert_eq!(last.map(|record| record.key), Some(b"2026-02-09".to_vec()));
            events.close()?;
        }
        then { assert_eq!(february.len(), 2); }

        connects_with_a_secret:
        given { use std::path::Path; }
        shows {
            let secret = zerohop_client::read_secret(Path::new("cluster-secret"))?;
            let options = zerohop_client::ClientOptions { secret: Some(secret), ..Default::default() };
            let client = zerohop_client::Client::connect_with(&["127.0.0.1:7400"], options).await?;
        }
        then {
            let colour = client.keyspace("default").await?.lookup_bytes("colour").await?;
            assert_eq!(colour.as_deref(), Some(&b"blue"[..]));
        }

        connects_with_tls:
        given { let secret = Some(zerohop_client::read_secret(std::path::Path::new("cluster-secret"))?); }
        shows {
            let tls = zerohop_client::ClientTls::new(&std::fs::read("tls/ca.pem")?)?;
            let options = zerohop_client::ClientOptions { tls: Some(tls), secret, ..Default::default() };
        }
        then {
            let client = zerohop_client::Client::connect_with(&["127.0.0.1:7420"], options).await?;
            let colour = client.keyspace("default").await?.lookup_bytes("colour").await?;
            assert_eq!(colour.as_deref(), Some(&b"green"[..]));
        }
    }
}

/// The code without comments, spaces and the lines that a document hides (`# …`).
fn bare(code: &str) -> String {
    let lines =
        code.lines().map(|line| if line == "#" { "" } else { line.strip_prefix("# ").unwrap_or(line) });
    let lines = lines.map(|line| if line.starts_with("//") { "" } else { line.split(" //").next().unwrap() });
    lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

fn all() -> Vec<Program> {
    [short::programs(), client::programs()].into_iter().flatten().collect()
}

/// The shell of a guide runs this, with a program of the guide as its input.
#[tokio::test]
async fn guide_program_behaves_as_documented() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let text = bare(&text);
    let program = all().into_iter().find(|program| program.text == text);
    let program = program.expect("bring tests/suite/guides/programs up to date with this");
    if let Err(error) = (program.run)().await {
        panic!("{error}");
    }
}

#[test]
fn documented_programs_and_test_programs_are_the_same() {
    let mut left = all();
    let documents = ["", "docs", "docs/guide"].into_iter().flat_map(|folder| {
        let files = std::fs::read_dir(root().join(folder)).unwrap();
        files.map(move |file| Path::new(folder).join(file.unwrap().file_name()))
    });
    for document in documents.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = std::fs::read_to_string(root().join(&document)).unwrap();
        for block in block::programs(&text) {
            assert!(GUIDES.iter().any(|guide| Path::new(guide) == document), "{document:?} is not played");
            let found = left.iter().position(|program| program.text == bare(&block));
            left.remove(found.unwrap_or_else(|| {
                panic!("{document:?}: bring tests/suite/guides/programs up to date with\n{block}")
            }));
        }
    }
    assert!(left.is_empty(), "no document shows {}", left[0].text);
}
