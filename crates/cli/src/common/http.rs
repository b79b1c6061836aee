//! One HTTP request to a node's manager; the answer is text of bounded length.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zerohop_client::ClientTls;
use zerohop_server::ManagerStream;

/// The error for a manager that answers only with the cluster's secret.
pub(crate) const SECRET_REQUIRED: &str = "it wants the cluster's secret: say --secret-file PATH";

/// How long a manager may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Longest answer: the metrics of a node with many instances.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// The body of `path`. `bearer`: the proof that the cluster's secret is known.
///
/// # Errors No manager answers, or it refuses; as text.
pub(crate) async fn get(
    address: &str,
    path: &str,
    bearer: Option<&str>,
    tls: Option<&ClientTls>,
) -> Result<String, String> {
    let answer = timeout(ANSWER_MAX, exchange(address, path, bearer, tls)).await;
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
pub(crate) async fn unserved_reason(address: &str, tls: Option<&ClientTls>) -> Option<String> {
    Some(health(address, tls).await?.get("reason")?.as_str()?.to_owned())
}

/// What the node at this address reports at `/health`; `None`: it does not answer.
pub(crate) async fn health(address: &str, tls: Option<&ClientTls>) -> Option<serde_json::Value> {
    let text = timeout(ANSWER_MAX, exchange(address, "/health", None, tls)).await.ok()?.ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

/// The answer to one request, with its head.
///
/// # Errors The node cannot be reached, or the connection breaks; as text.
pub(crate) async fn exchange(
    address: &str,
    path: &str,
    bearer: Option<&str>,
    tls: Option<&ClientTls>,
) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    let socket = TcpStream::connect(address).await.map_err(failed)?;
    let shown = bearer.map_or_else(String::new, |bearer| format!("Authorization: Bearer {bearer}\r\n"));
    // A node without a secret refuses host names that are not its own.
    let host = socket.peer_addr().map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{shown}\r\n");
    let mut stream = ManagerStream::opened(socket, address, tls).map_err(failed)?;
    let sent = match stream.write_all(request.as_bytes()).await {
        Ok(()) => stream.flush().await,
        failed => failed,
    };
    // The manager may have sent a reason before the connection broke.
    let mut text = String::new();
    let read = stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text).await;
    match (read, sent) {
        (Ok(0), Err(error)) | (Err(error), _) => Err(error.to_string()),
        (Ok(_), _) => Ok(text),
    }
}
