//! The host names for which a manager serves HTTP, and a gateway its metrics, without a secret.
//!
//! A web page from anywhere may have a browser load from its own host name, and by then resolve that name to this machine (DNS rebinding). The
//! browser would show the response to the page. Such requests have the page's name in `Host`, so only requests with an own name
//! are served. With a secret, a request needs the bearer token, which no page knows.

use std::net::IpAddr;

/// Whether a request is meant for this program, by its `Host` and `Origin`, on a connection to this address. `None`: the request has no such header,
/// as from programs other than browsers.
#[must_use]
pub fn is_own(host: Option<&[u8]>, origin: Option<&[u8]>, local: Option<IpAddr>, names: &[String]) -> bool {
    let is_served = |authority: &[u8]| {
        std::str::from_utf8(authority).is_ok_and(|authority| is_name_of(host_of(authority), local, names))
    };
    // An origin is a scheme and an authority; any other value, such as `null`, is foreign.
    let is_from_here = |origin: &[u8]| {
        let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        authority.is_some_and(is_served)
    };
    host.is_none_or(is_served) && origin.is_none_or(is_from_here)
}

/// The host without the port and without the brackets of IPv6.
fn host_of(authority: &str) -> &str {
    if let Some((address, _)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

fn is_name_of(host: &str, local: Option<IpAddr>, names: &[String]) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => {
            let address = address.to_canonical();
            address.is_loopback() || local.is_some_and(|local| local.to_canonical() == address)
        }
        Err(_) => {
            // A name may end with the dot of the root.
            let host = host.strip_suffix('.').unwrap_or(host);
            let is_it = |name: &str| name.eq_ignore_ascii_case(host);
            is_it("localhost") || names.iter().any(|name| is_it(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: [u8; 4] = [10, 0, 0, 7];

    fn served(host: Option<&str>, origin: Option<&str>) -> bool {
        let names = ["node1".to_owned(), "metrics.example.org".to_owned()];
        is_own(host.map(str::as_bytes), origin.map(str::as_bytes), Some(LOCAL.into()), &names)
    }

    #[test]
    fn a_request_is_served_by_names_of_this_node_only() {
        for host in [
            "localhost",
            "LocalHost:7400",
            "localhost.",
            "127.0.0.1:7400",
            "127.9.8.7",
            "[::1]:7400",
            "[::1]",
            "10.0.0.7:7400",
            "[::ffff:10.0.0.7]:80",
            "node1:7400",
            "NODE1",
            "metrics.example.org",
        ] {
            assert!(served(Some(host), None), "{host}");
            assert!(served(Some("localhost"), Some(&format!("http://{host}"))), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7400",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.8",
            "node1.evil.example",
            "",
            ":7400",
            "127.0.0.1@evil.example",
            "[::2]",
            "localhost:x",
            "0.0.0.0",
        ] {
            assert!(!served(Some(host), None), "{host}");
            assert!(!served(Some("localhost"), Some(&format!("https://{host}"))), "{host}");
        }
        assert!(served(None, None), "a program that is no browser");
        assert!(!served(Some("localhost"), Some("null")) && !served(None, Some("file://")));
        assert!(!is_own(Some(b"\xff"), None, None, &[]));
    }
}
