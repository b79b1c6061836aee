//! What the documents show of Rust is what is compiled here, and what needs no server is run.

#![expect(dead_code, reason = "what needs a server is only compiled")]

use std::error::Error;
use std::path::Path;

use zerohop_client::Secret;

use super::root;

/// The documents whose programs stand below. Those of the client's guide are its own examples.
const DOCUMENTS: [&str; 3] = ["README.md", "docs/guide/embedded.md", "docs/guide/security.md"];

const SOURCE: &str = include_str!("programs.rs");

/// The store's library, as if a program ran in an empty folder.
mod in_a_folder {
    use std::path::PathBuf;
    use std::sync::OnceLock;

    static FOLDER: OnceLock<PathBuf> = OnceLock::new();

    pub(super) fn enter(folder: PathBuf) {
        FOLDER.set(folder).unwrap();
    }

    pub(super) fn open(path: &str) -> Result<zerohop::Store, zerohop::Error> {
        zerohop::open(FOLDER.get().unwrap().join(path))
    }
}

fn stores() -> Result<(), Box<dyn Error>> {
    use in_a_folder as zerohop;
    let store = zerohop::open("data")?;
    store.insert("ship", "Nautilus")?;
    store.append("ship", ", submarine")?;
    store.push("crew", "Nemo")?;
    assert_eq!(store.lookup("ship")?.as_deref(), Some(&b"Nautilus, submarine"[..]));
    store.close()?;
    Ok(())
}

fn stores_shortly() -> Result<(), Box<dyn Error>> {
    use in_a_folder as zerohop;
    let store = zerohop::open("data")?;
    store.insert("ship", "Nautilus")?;
    assert_eq!(store.lookup("ship")?.as_deref(), Some(&b"Nautilus"[..]));
    store.close()?;
    Ok(())
}

async fn connects() -> Result<(), Box<dyn Error>> {
    let client = zerohop_client::Client::connect("127.0.0.1:7400").await?;
    let keyspace = client.keyspace("default").await?;
    keyspace.insert("colour", "blue").await?;
    let visits = keyspace.increment("visits", 1).await?;
    assert!(visits > 0);
    Ok(())
}

async fn connects_with_a_secret() -> Result<(), Box<dyn Error>> {
    let secret = zerohop_client::read_secret(Path::new("cluster-secret"))?;
    let options = zerohop_client::Options { secret: Some(secret), ..Default::default() };
    let client = zerohop_client::Client::connect_with(&["127.0.0.1:7400"], options).await?;
    drop(client);
    Ok(())
}

fn connects_with_tls(secret: Option<Secret>) -> Result<(), Box<dyn Error>> {
    let tls = zerohop_client::ClientTls::new(&std::fs::read("tls/ca.pem")?)?;
    let options = zerohop_client::Options { tls: Some(tls), secret, ..Default::default() };
    drop(options);
    Ok(())
}

/// The blocks of a document that are marked as Rust.
fn blocks(text: &str) -> Vec<String> {
    let (mut found, mut inside) = (Vec::new(), false);
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(mark) => {
                inside = !inside && mark.split(',').next() == Some("rust");
                if inside {
                    found.push(String::new());
                }
            }
            None if inside => found.last_mut().unwrap().extend([line, "\n"]),
            None => {}
        }
    }
    found
}

/// Without comments and spaces.
fn bare(code: &str) -> String {
    let lines = code.lines().map(|line| line.split(" //").next().unwrap());
    lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

#[test]
fn what_documents_show_of_rust_stands_here_and_does_what_they_say() {
    let source = bare(SOURCE);
    let mut count = 0;
    for document in DOCUMENTS {
        for block in blocks(&std::fs::read_to_string(root().join(document)).unwrap()) {
            assert!(source.contains(&bare(&block)), "{document}: bring programs.rs up to date with\n{block}");
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} programs were found");
    let folder = tempfile::tempdir().unwrap();
    in_a_folder::enter(folder.path().to_path_buf());
    stores().unwrap();
    stores_shortly().unwrap();
}
