//! The location of the cluster's secret. Only the name of its file is ever an argument or in the
//! environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::OsStringValueParser;
use zerohop_client::{Secret, read_secret};

use super::ending::CommandError;
use super::names;

/// The variable that names the file; empty: there is no secret, even if the default file exists.
pub(crate) const VARIABLE: &str = "ZEROHOP_SECRET_FILE";

/// The option of every command that connects to a cluster or starts one.
#[derive(Args, Clone, Debug)]
pub(crate) struct SecretPlace {
    /// The file with the secret of the cluster. Only its owner may have read permission. `zerohop secret new` creates
    /// one [default: ~/.config/zerohop/secret, if it exists].
    #[arg(long, env = VARIABLE, value_name = "PATH", value_parser = OsStringValueParser::new())]
    secret_file: Option<OsString>,
}

impl SecretPlace {
    /// Which file it is in, if there is a secret.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match &self.secret_file {
            Some(path) if path.is_empty() => None,
            Some(path) => Some(PathBuf::from(path)),
            None => default_path().filter(|path| path.exists()),
        }
    }

    /// The option with which another command finds the same file, with a space before it; empty: it
    /// needs none.
    pub(crate) fn option(&self) -> String {
        match &self.secret_file {
            Some(path) if !path.is_empty() => {
                format!(" --secret-file {}", names::in_shell(Path::new(path)))
            }
            _ => String::new(),
        }
    }

    /// The secret, if there is one.
    pub(crate) fn read(&self) -> Result<Option<Secret>, CommandError> {
        self.path().map(|path| read_secret(&path).map_err(CommandError::Secret)).transpose()
    }
}

/// The default file, by the XDG base directory specification.
fn default_path() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))?;
    Some(config.join("zerohop").join("secret"))
}
