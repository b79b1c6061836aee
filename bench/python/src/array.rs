//! An array of bytes that the Rust client writes to a blob and reads back, to compare with the
//! Python package.
//!
//! Commands come on standard input, one per line: `write NAME`, `read NAME`, `delete NAME`. The
//! answer is a line with the seconds it took, and the CPU time of this thread. The bytes are those
//! of the 64-bit numbers `i * FACTOR`; a read is checked after its time was measured.

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use zerohop_client::{Client, Keyspace};

/// As in `arrays.py`.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Executes commands until the end of input.
pub(super) fn run(endpoint: &str, bytes: usize) -> Result<(), String> {
    // One thread, as in the Python package.
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let client = runtime.block_on(Client::connect(endpoint)).map_err(|error| error.to_string())?;
    let keyspace = runtime.block_on(client.keyspace("default")).map_err(|error| error.to_string())?;
    let given: Vec<u8> = (0..bytes as u64 / 8).flat_map(|i| i.wrapping_mul(FACTOR).to_le_bytes()).collect();
    let mut into = vec![0; given.len()];
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let Some((verb, name)) = line.split_once(' ') else { return Err(format!("no word: {line}")) };
        let (begin, spent) = (Instant::now(), processor_time()?);
        let done = match verb {
            "write" => runtime.block_on(write(&keyspace, name, &given)),
            "read" => runtime.block_on(read(&keyspace, name, &mut into)),
            "delete" => runtime
                .block_on(keyspace.blob(name.to_owned()).delete())
                .map(drop)
                .map_err(|error| error.to_string()),
            verb => Err(format!("no such word: {verb}")),
        };
        done?;
        let (took, spent) = (begin.elapsed().as_secs_f64(), processor_time()?.saturating_sub(spent));
        if verb == "read" && into != given {
            return Err(format!("{name}: not all bytes are those that were written"));
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{took} {}", spent.as_secs_f64()).map_err(|error| error.to_string())?;
        out.flush().map_err(|error| error.to_string())?;
        into.fill(0);
    }
    Ok(())
}

async fn write(keyspace: &Keyspace, name: &str, bytes: &[u8]) -> Result<(), String> {
    let blob = keyspace.blob(name.to_owned());
    let written = async {
        blob.create(&[]).await?;
        let mut extension = blob.staged_extension().await?;
        extension.push(bytes).await?;
        extension.publish().await
    };
    written.await.map(drop).map_err(|error| error.to_string())
}

async fn read(keyspace: &Keyspace, name: &str, into: &mut [u8]) -> Result<(), String> {
    let blob = keyspace.blob(name.to_owned());
    let mut pieces = blob.read_at(0, into.len() as u64).await.map_err(|error| error.to_string())?;
    let mut at = 0;
    while let Some(piece) = pieces.next_piece().await.map_err(|error| error.to_string())? {
        into[at..at + piece.len()].copy_from_slice(&piece);
        at += piece.len();
    }
    match at == into.len() {
        true => Ok(()),
        false => Err(format!("{name}: {at} bytes came instead of {}", into.len())),
    }
}

/// CPU time of this thread, kernel time included, from the scheduler's nanosecond counter.
fn processor_time() -> Result<Duration, String> {
    let schedstat =
        std::fs::read_to_string("/proc/thread-self/schedstat").map_err(|error| error.to_string())?;
    let nanoseconds = schedstat.split_whitespace().next().and_then(|number| number.parse().ok());
    nanoseconds.map(Duration::from_nanos).ok_or_else(|| "the system does not tell processor times".to_owned())
}
