//! `zerohop tls`: a private CA and its certificates, for users without a CA.

use std::net::ToSocketAddrs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde::Serialize;
use zerohop_client::{read_key, write_key};
use zerohop_server::hosts::expand;

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names;
use crate::output;

/// The name of every CA made here: later certificates are made from this name and the CA's key
/// alone.
const CA_NAME: &str = "zerohop CA";

/// The names of the CA's files.
const CA: &str = "ca.pem";
const CA_KEY: &str = "ca-key.pem";

/// The permissions of a new folder, which the umask may restrict: others may read the certificates, which every client needs,
/// and replace nothing. The keys in it are private.
const FOLDER_MODE: u32 = 0o755;

/// The same for a certificate.
const CERTIFICATE_MODE: u32 = 0o644;

/// The default name of a certificate.
const NODE: &str = "node";

/// Names under which a node is reached from its own machine.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Creates a CA and a certificate in a folder: ca.pem, ca-key.pem, node.pem and node-key.pem.
    ///
    /// Start nodes with --tls-cert node.pem --tls-key node-key.pem --tls-ca ca.pem, and clients with --tls-ca ca.pem.
    /// Only `zerohop tls add` needs ca-key.pem: keep it where no other user has access. Existing files are not changed.
    New(TlsNewArguments),
    /// Creates another certificate with the CA of a folder, as NAME.pem and NAME-key.pem in that folder.
    Add(AddArguments),
}

#[derive(Args, Debug)]
pub(crate) struct TlsNewArguments {
    /// The folder. The command creates it if necessary.
    folder: PathBuf,
    #[command(flatten)]
    hosts: Hosts,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct AddArguments {
    /// The folder of the CA.
    folder: PathBuf,
    /// The name of the files.
    name: String,
    #[command(flatten)]
    hosts: Hosts,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON: the files that were made.
#[derive(Serialize)]
struct TlsOutput {
    folder: String,
    files: Vec<String>,
}

#[derive(Args, Debug)]
struct Hosts {
    /// The hosts of the certificate, as in `zerohop node --hosts`: names and addresses, and the addresses that the
    /// names resolve to. The loopback addresses are always included [default: this machine].
    #[arg(long, value_name = "LIST")]
    hosts: Option<String>,
}

pub(crate) fn run(command: &TlsCommand) -> Result<CommandEnding, CommandError> {
    match command {
        TlsCommand::New(TlsNewArguments { folder, hosts, json }) => {
            let names = hosts.names()?;
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(FOLDER_MODE)
                .create(folder)
                .map_err(|error| CommandError::system("making the folder", folder, &error))?;
            let key = KeyPair::generate().map_err(failed)?;
            write_key(&folder.join(CA_KEY), key.serialize_pem().as_bytes()).map_err(CommandError::Secret)?;
            let params = ca()?;
            write_public(&folder.join(CA), &params.self_signed(&key).map_err(failed)?.pem())?;
            certify(folder, NODE, names, &Issuer::new(params, key))?;
            if *json {
                print_files(folder, &[CA, CA_KEY, &format!("{NODE}.pem"), &format!("{NODE}-key.pem")])?;
                return Ok(CommandEnding::Done);
            }
            output::problem(&format!(
                "A CA and a certificate are in {folder}. Nodes are started with --tls-cert {folder}/{NODE}.pem --tls-key \
                 {folder}/{NODE}-key.pem --tls-ca {folder}/{CA}, clients with --tls-ca {folder}/{CA}.",
                folder = names::path(folder)
            ));
        }
        TlsCommand::Add(AddArguments { folder, name, hosts, json }) => {
            let is_fine = |one: char| one.is_ascii_alphanumeric() || "._-".contains(one);
            if name.is_empty() || name.starts_with('.') || !name.chars().all(is_fine) {
                let what = "name it with letters, digits and . _ - : files are called so";
                return Err(CommandError::Usage(what.to_owned()));
            }
            let names = hosts.names()?;
            let path = folder.join(CA_KEY);
            let pem = read_key(&path).map_err(CommandError::Secret)?;
            let pem = String::from_utf8_lossy(&pem);
            let key = KeyPair::from_pem(&pem)
                .map_err(|error| CommandError::Usage(format!("{}: {error}", names::path(&path))))?;
            certify(folder, name, names, &Issuer::new(ca()?, key))?;
            if *json {
                print_files(folder, &[&format!("{name}.pem"), &format!("{name}-key.pem")])?;
            }
        }
    }
    Ok(CommandEnding::Done)
}

fn print_files(folder: &Path, files: &[&str]) -> Result<(), CommandError> {
    let files = files.iter().map(|file| (*file).to_owned()).collect();
    output::json(&TlsOutput { folder: folder.display().to_string(), files })
}

impl Hosts {
    /// All names and addresses of the certificate.
    fn names(&self) -> Result<Vec<String>, CommandError> {
        let mut names: Vec<String> = LOCAL.map(str::to_owned).to_vec();
        let own = || vec![rustix::system::uname().nodename().to_string_lossy().into_owned()];
        let hosts = match &self.hosts {
            Some(list) => {
                let hosts = expand(list).map_err(|error| CommandError::Usage(error.to_string()))?;
                hosts.into_iter().map(|host| host.name).collect()
            }
            None => own(),
        };
        for host in hosts {
            match (host.as_str(), 0).to_socket_addrs() {
                Ok(found) => names.extend(found.map(|address| address.ip().to_string())),
                // A machine that does not know its own name is reached only by its loopback.
                Err(_) if self.hosts.is_none() => {}
                Err(error) => {
                    return Err(CommandError::Usage(format!(
                        "the host {host} has no address, and nodes ask for each other by addresses: {error}"
                    )));
                }
            }
            // The address of an IPv6 host is there already, without its zone, which no certificate has.
            if !host.contains(':') {
                names.push(host);
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }
}

/// The parameters of a CA certificate.
fn ca() -> Result<CertificateParams, CommandError> {
    let mut params = CertificateParams::new(Vec::<String>::new()).map_err(failed)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, CA_NAME);
    Ok(params)
}

/// Makes a certificate for these names, and writes it and its key to files.
fn certify(
    folder: &Path,
    name: &str,
    names: Vec<String>,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<(), CommandError> {
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A node is a server, and a client of other nodes; clients get certificates by `zerohop tls add`.
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, issuer).map_err(failed)?.pem();
    let key_path = folder.join(format!("{name}-key.pem"));
    write_key(&key_path, key.serialize_pem().as_bytes()).map_err(CommandError::Secret)?;
    write_public(&folder.join(format!("{name}.pem")), &certificate)
}

/// Creates a file that all users may read, and only its owner may change.
fn write_public(path: &Path, text: &str) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| CommandError::system("making the file", path, &error);
    #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(CERTIFICATE_MODE).open(path);
    let mut file = file.map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)
}

fn failed(error: rcgen::Error) -> CommandError {
    CommandError::Usage(format!("the certificate cannot be made: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        Hosts { hosts: Some(list.to_owned()) }.names().unwrap()
    }

    #[test]
    fn addresses_need_no_name() {
        assert_eq!(names("203.0.113.9"), ["127.0.0.1", "203.0.113.9", "::1", "localhost"]);
        let all = ["127.0.0.1", "203.0.113.7", "203.0.113.8", "::1", "fd00::5", "fe80::2", "localhost"];
        assert_eq!(names("203.0.113.[7-8]:7400,[fd00::5]:7400,fe80::2%1"), all);
        let params = CertificateParams::new(names("203.0.113.9,fd00::5")).unwrap();
        let is_address = |name: &&rcgen::SanType| matches!(name, rcgen::SanType::IpAddress(_));
        assert_eq!(params.subject_alt_names.iter().filter(is_address).count(), 4);
    }
}
