//! One HTTP request to a node's manager; the answer is text of bounded length.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The error for a manager that answers only with the cluster's secret.
pub(crate) const SECRET_REQUIRED: &str = "it wants the cluster's secret: say --secret-file PATH";

/// How long a manager may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Longest answer: the metrics of a node with many instances.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// The body of `path`. `bearer`: the proof that the cluster's secret is known.
///
/// # Errors No manager answers, or it refuses; as text.
pub(crate) async fn get(address: &str, path: &str, bearer: Option<&str>) -> Result<String, String> {
    let answer = timeout(ANSWER_MAX, http_get(address, path, bearer)).await;
    let text = answer.unwrap_or_else(|_| Err(format!("no answer in {ANSWER_MAX:?}")))?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("what answers there is no manager of zerohop")?;
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        Some("401") => Err(SECRET_REQUIRED.to_owned()),
        _ => Err(head.lines().next().unwrap_or_default().to_owned()),
    }
}

/// Why the node at this address does not serve, from its `/health`; `None`: it serves, or does not
/// answer.
pub(crate) async fn why_not(address: &str) -> Option<String> {
    let text = timeout(ANSWER_MAX, http_get(address, "/health", None)).await.ok()?.ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    let health: serde_json::Value = serde_json::from_str(body).ok()?;
    Some(health.get("reason")?.as_str()?.to_owned())
}

async fn http_get(address: &str, path: &str, bearer: Option<&str>) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).await.map_err(failed)?;
    let shown = bearer.map_or_else(String::new, |bearer| format!("Authorization: Bearer {bearer}\r\n"));
    // A node without a secret refuses host names that are not its own.
    let host = stream.peer_addr().map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{shown}\r\n");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut text = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text).await.map_err(failed)?;
    Ok(text)
}
