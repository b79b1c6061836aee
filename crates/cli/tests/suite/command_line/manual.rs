//! Completions and manual pages have every command.

use std::process::Command;

use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};

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
    let printed = stdout(&output);
    assert_eq!(printed.lines().collect::<Vec<_>>(), ["partition", "cas", "--replicas"], "{output:?}");
}

#[test]
fn bash_completes_names_of_keyspaces_of_the_named_cluster() {
    let cluster = ServingProgram::in_memory();
    for name in ["papers", "pages", "results"] {
        cluster.ok(&["keyspace", "create", name, "--partitions", "1"]);
    }
    // The program is found under its name, as by users.
    let folder = crate::support::folder();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zerohop"), folder.path().join("zerohop")).unwrap();
    let endpoint = cluster.endpoint();
    let script = format!(
        "PATH={}:$PATH; source <(zerohop completions bash)\n\
         ask() {{ COMP_LINE=$1; COMP_POINT=${{#1}}; read -ra COMP_WORDS <<< \"$1\"; [[ $1 == *' ' ]] && COMP_WORDS+=(''); \
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=(); \
         _zerohop_named zerohop \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
         printf '%s\\n' \"${{COMPREPLY[*]}}\"; }}\n\
         ask 'zerohop kv lookup --endpoint {endpoint} -k pa'\n\
         ask 'zerohop kv lookup --endpoint={endpoint} --keyspace '\n\
         export ZEROHOP_ENDPOINT={endpoint}\n\
         ask 'zerohop keyspace drop r'\nask 'zerohop partition list '\nask 'zerohop keyspace drop --ye'\n\
         export ZEROHOP_ENDPOINT=127.0.0.1:1\nask 'zerohop kv lookup -k pa'\n",
        folder.path().display()
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &script]).env("ZEROHOP_SECRET_FILE", "").env_remove("ZEROHOP_ENDPOINT");
    let output = bash.output().unwrap();
    let printed = stdout(&output);
    let mut lines = printed.lines().map(|line| {
        let mut names: Vec<&str> = line.split_whitespace().collect();
        names.sort_unstable();
        names.join(" ")
    });
    for expected in [
        "pages papers",
        "default pages papers results",
        "results",
        "default pages papers results",
        "--yes",
        "",
    ] {
        assert_eq!(lines.next().as_deref(), Some(expected), "{output:?}");
    }
    assert_eq!(stderr(&output), "", "{output:?}");
}

#[test]
fn other_shells_query_names_of_keyspaces_where_an_option_takes_one() {
    let script = |shell| stdout(&zerohop(&["completions", shell]).output().unwrap());
    let zsh = script("zsh");
    assert!(zsh.contains("_zerohop_keyspaces() {") && zsh.contains(":NAME:_zerohop_keyspaces'"), "{zsh}");
    let file = |line: &&str| line.starts_with("'-k+[") && line.contains(":NAME:_default");
    assert_eq!(zsh.lines().find(file), None);
    assert!(script("fish").contains("-s k -l keyspace -x -a \"(__fish_zerohop_keyspaces)\""));
}

#[test]
fn help_and_manual_pages_have_examples() {
    let long = stdout(&zerohop(&["kv", "wait", "--help"]).output().unwrap());
    assert!(
        long.contains("Examples:\n  zerohop kv wait result --timeout 10m\n\nExit codes:\n  0    done\n"),
        "{long}"
    );
    let short = stdout(&zerohop(&["kv", "wait", "-h"]).output().unwrap());
    assert!(!short.contains("Examples:") && short.contains("Exit codes"), "{short}");
    let folder = crate::support::folder();
    let pages = folder.path().join("man1");
    let output = zerohop(&["man".as_ref(), "--dir".as_ref(), pages.as_os_str()]).output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let page = std::fs::read_to_string(pages.join("zerohop-kv-wait.1")).unwrap();
    for words in [
        ".SH EXAMPLES\n.nf\nzerohop kv wait result \\-\\-timeout 10m\n.fi\n",
        ".SH \"EXIT STATUS\"\n.nf\nExit codes:\n  0    done\n",
        ".SH ENVIRONMENT\n",
        "\\fBZEROHOP_ENDPOINT\\fR\nthe value of \\-\\-endpoint",
        ".SH FILES\n.TP\n\\fI~/.config/zerohop/secret\\fR\n",
        ".SH \"SEE ALSO\"\nzerohop(1), zerohop\\-kv(1)\n",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
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
