//! Whether any process listens at the endpoints of a cluster. A session tries its endpoints until its deadline; a caller that must report an
//! unreachable cluster at once races this probe against the connection attempt.

use std::future::pending;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::sleep;

/// How long a cluster may take to answer before each endpoint is probed separately. Most clusters
/// answer sooner.
const PROBE_AFTER: Duration = Duration::from_millis(20);

/// Returns once no process listens at any endpoint, with the reasons as text; never returns if one
/// may listen. `looked_up` is the position, from 1, of the host whose address is being resolved,
/// else 0.
pub async fn until_none_listens(endpoints: &[&str], looked_up: &AtomicUsize) -> String {
    sleep(PROBE_AFTER).await;
    let mut reasons = Vec::new();
    for (place, endpoint) in endpoints.iter().enumerate() {
        looked_up.store(place + 1, Ordering::Relaxed);
        let found = lookup_host(endpoint).await;
        looked_up.store(0, Ordering::Relaxed);
        let reason = match found {
            Err(error) => no_address(endpoint, &error.to_string()),
            Ok(addresses) => {
                let addresses: Vec<_> = addresses.collect();
                for address in &addresses {
                    match TcpStream::connect(address).await {
                        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                        _ => return pending().await,
                    }
                }
                match addresses.is_empty() {
                    true => no_address(endpoint, "it has no address"),
                    false => format!("cannot connect to {endpoint}: connection refused"),
                }
            }
        };
        reasons.push(reason);
    }
    reasons.join("; ")
}

/// The error text for a host without a known address.
pub fn no_address(endpoint: &str, why: &str) -> String {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    let why = why.strip_prefix("failed to lookup address information: ").unwrap_or(why);
    format!("cannot resolve host {host}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unresolvable_host_is_named_in_error() {
        let why = "failed to lookup address information: Name or service not known";
        assert_eq!(no_address("nowhere:7400", why), "cannot resolve host nowhere: Name or service not known");
    }
}
