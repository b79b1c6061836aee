//! The listeners of a node: the manager's, and those of its instances at the ports that follow.

use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};

use super::ServerOptions;
use crate::error::StartError;
use zerohop_reactor::limits::BACKLOG;
use zerohop_reactor::{MioDriver, TlsOptions};
use zerohop_system::predecessor::retry_until_released;

/// All listeners of a node. Clients that connect wait until their connection is accepted.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) manager: (TcpListener, SocketAddr),
    pub(super) instances: Vec<(MioDriver, SocketAddr)>,
}

impl Listeners {
    /// Listens at `listen` for the manager, and at the following ports for the instances; port 0 chooses a free port for each.
    ///
    /// # Errors
    /// [`StartError::Listen`].
    pub(super) fn open(
        listen: SocketAddr,
        instances: usize,
        tls: Option<&TlsOptions>,
    ) -> Result<Self, StartError> {
        let is_in_use = |error: &Error| error.kind() == ErrorKind::AddrInUse && listen.port() != 0;
        #[expect(clippy::disallowed_methods, reason = "this module is the home of listeners")]
        let bind = || TcpListener::bind(listen);
        let manager =
            retry_until_released(&listen, is_in_use, bind).map_err(|error| refused(listen, &error))?;
        rustix::net::listen(&manager, BACKLOG).map_err(|errno| refused(listen, &errno.into()))?;
        let at = manager.local_addr().map_err(|error| refused(listen, &error))?;
        let drivers = (1..=instances).map(|place| {
            let address = behind(listen, place)?;
            let driver = retry_until_released(&address, is_in_use, || MioDriver::listen(address));
            let mut driver = driver.map_err(|error| refused(address, &error))?;
            driver.encrypt(tls.cloned());
            let at = driver.local_address().map_err(|error| refused(address, &error))?;
            Ok((driver, at))
        });
        Ok(Listeners { manager: (manager, at), instances: drivers.collect::<Result<_, StartError>>()? })
    }
}

/// Checks whether the node may listen at the address: other machines cannot reach it, or the operator permits that.
///
/// # Errors
/// [`StartError::NotLoopback`].
pub(super) fn check(listen: SocketAddr, insecure: bool) -> Result<(), StartError> {
    if listen.ip().is_loopback() || insecure { Ok(()) } else { Err(StartError::NotLoopback { listen }) }
}

/// The address with a port this much higher.
fn behind(listen: SocketAddr, ports: usize) -> Result<SocketAddr, StartError> {
    if listen.port() == 0 {
        return Ok(listen);
    }
    let port = u16::try_from(ports).ok().and_then(|ports| listen.port().checked_add(ports));
    let port = port.ok_or_else(|| StartError::Listen {
        address: format!("{listen} and the {ports} ports behind it"),
        reason: "ports end at 65535".to_owned(),
    })?;
    Ok(SocketAddr::new(listen.ip(), port))
}

fn refused(address: SocketAddr, error: &Error) -> StartError {
    StartError::Listen { address: address.to_string(), reason: error.to_string() }
}

/// The host names for which HTTP is served without a secret.
pub(super) fn http_names(options: &ServerOptions) -> Vec<String> {
    let system = rustix::system::uname();
    let own = system.nodename().to_str().ok().filter(|name| !name.is_empty()).map(str::to_owned);
    options.http_names.iter().cloned().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(listen: &str, instances: usize) -> Result<Listeners, StartError> {
        Listeners::open(listen.parse().unwrap(), instances, None)
    }

    #[test]
    fn instances_listen_behind_the_manager() {
        let listen: SocketAddr = "[::1]:7400".parse().unwrap();
        assert_eq!(behind(listen, 3), Ok("[::1]:7403".parse().unwrap()));
        let last: SocketAddr = "127.0.0.1:65535".parse().unwrap();
        assert!(behind(last, 1).unwrap_err().to_string().contains("65535"));
        let listeners = open("127.0.0.1:0", 3).unwrap();
        let mut ports: Vec<u16> = listeners.instances.iter().map(|(_, at)| at.port()).collect();
        ports.push(listeners.manager.1.port());
        ports.sort_unstable();
        ports.dedup();
        assert!(ports.len() == 4 && !ports.contains(&0), "{ports:?}");
    }

    #[test]
    fn public_address_without_secret_and_port_in_use_are_refused() {
        for listen in ["0.0.0.0:0", "192.0.2.1:7400", "[::]:0"] {
            let error = check(listen.parse().unwrap(), false).unwrap_err();
            assert_eq!(check(listen.parse().unwrap(), true), Ok(()));
            assert!(matches!(error, StartError::NotLoopback { .. }), "{listen}: {error}");
            assert!(error.to_string().contains("secret"), "{error}");
        }
        let listeners = open("127.0.0.1:0", 0).unwrap();
        let error = open(&listeners.manager.1.to_string(), 0).unwrap_err();
        assert!(error.to_string().contains("another process may have the port"), "{error}");
    }
}
