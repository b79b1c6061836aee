//! The arguments of `zerohop completions` and `zerohop man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// The shell: bash, elvish, fish, powershell or zsh.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Args, Debug)]
pub(crate) struct ManArguments {
    /// Writes the pages of all commands into this folder, such as ~/.local/share/man/man1, and creates it if necessary.
    /// Without it, the command prints the page of `zerohop`.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
