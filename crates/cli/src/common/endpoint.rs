//! The endpoints of a cluster: what `--endpoint` says.

use zerohop_placement::Address;
use zerohop_server::hosts::PORT_DEFAULT;

/// The default endpoint: the first node of `zerohop up`.
const DEFAULT: &str = "127.0.0.1:7400";

/// Endpoints of one cluster, in one argument or variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints(Vec<String>);

impl Endpoints {
    /// One endpoint.
    pub(crate) fn one(address: &str) -> Endpoints {
        Endpoints(vec![address.to_owned()])
    }

    /// Several of them.
    pub(crate) fn several(addresses: Vec<String>) -> Endpoints {
        Endpoints(addresses)
    }

    /// For clap: addresses with commas between them; one without a port has the default port. An empty variable does not come here.
    pub(crate) fn read(text: &str) -> Result<Endpoints, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let all = parts.map(with_port).collect::<Result<Vec<_>, _>>()?;
        if all.is_empty() {
            return Err(format!(
                "there is no address in it: write host:port, such as {DEFAULT} or [::1]:7400"
            ));
        }
        Ok(Endpoints(all))
    }
}

/// All of them, or the default.
pub(crate) fn all(given: &[Endpoints]) -> Vec<&str> {
    let all: Vec<&str> = given.iter().flat_map(|some| &some.0).map(String::as_str).collect();
    if all.is_empty() { vec![DEFAULT] } else { all }
}

/// An address, with the default port if it has none.
pub(crate) fn with_port(text: &str) -> Result<String, String> {
    let is_bare_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let completed = match text {
        _ if is_bare_v6 => format!("[{text}]:{PORT_DEFAULT}"),
        _ if !text.contains(':') || text.ends_with(']') => format!("{text}:{PORT_DEFAULT}"),
        _ => text.to_owned(),
    };
    let address = Address::new(&completed);
    address.map(|_| completed).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        Endpoints::read(text).unwrap().0
    }

    #[test]
    fn an_address_without_a_port_has_the_default_port() {
        assert_eq!(read("localhost"), ["localhost:7400"]);
        assert_eq!(read("::1,[::1],[::1]:7"), ["[::1]:7400", "[::1]:7400", "[::1]:7"]);
        assert_eq!(read("10.0.0.1, node2:7500,"), ["10.0.0.1:7400", "node2:7500"]);
        for bad in
            ["", " ", ",", " , ", "localhost:", "host:0", "host:99999", "a b", ":7400", "größe", "a:b:c"]
        {
            let why = Endpoints::read(bad).unwrap_err();
            assert_eq!(why.matches("write host:port, such as 127.0.0.1:7400").count(), 1, "{bad}: {why}");
            assert_eq!(why.matches("write").count(), 1, "{bad}: {why}");
        }
    }

    #[test]
    fn empty_endpoint_list_means_the_default() {
        assert_eq!(all(&[]), [DEFAULT]);
        assert_eq!(
            all(&[Endpoints::one("a:1"), Endpoints::read("b,c").unwrap()]),
            ["a:1", "b:7400", "c:7400"]
        );
    }
}
