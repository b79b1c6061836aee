//! Completions and manual pages have every command.

use std::process::Command;

use crate::support::serving::{code, stderr, stdout, zerohop};

#[test]
fn bash_completes_commands_and_options() {
    let script = format!(
        "source <({} completions bash)\n\
         ask() {{ COMP_WORDS=(\"$@\"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=(); \
         _zerohop zerohop \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[*]}}\"; }}\n\
         ask zerohop part\nask zerohop kv ca\nask zerohop keyspace create --rep\n",
        env!("CARGO_BIN_EXE_zerohop")
    );
    let output = Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
    let said = stdout(&output);
    assert_eq!(said.lines().collect::<Vec<_>>(), ["partition", "cas", "--replicas"], "{output:?}");
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = zerohop(&["completions", shell]).output().unwrap();
        assert_eq!(code(&output), 0, "{output:?}");
        let text = stdout(&output);
        assert!(["keyspace", "partition", "completions"].iter().all(|word| text.contains(word)), "{shell}");
    }
    assert_eq!(code(&zerohop(&["completions", "abacus"]).output().unwrap()), 2);
}

#[test]
fn every_command_has_a_manual_page_with_exit_codes() {
    let output = zerohop(&["man"]).output().unwrap();
    let page = stdout(&output);
    assert!(page.contains(".TH zerohop 1") && page.contains("Exit codes"), "{page}");
    let folder = crate::support::folder();
    let pages = folder.path().join("man1");
    let output = zerohop(&["man".as_ref(), "--dir".as_ref(), pages.as_os_str()]).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    for command in ["", "-up", "-kv-lookup", "-keyspace-create", "-man", "-node-drain", "-partition-move"] {
        let text = std::fs::read_to_string(pages.join(format!("zerohop{command}.1"))).unwrap();
        assert!(text.contains("Exit codes"), "{command}");
    }
    assert!(stderr(&output).contains("pages are in"), "{output:?}");
}
