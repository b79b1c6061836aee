//! Names of keyspaces in the completions of shells. The names come from the cluster, so the scripts
//! ask it: with the options of the command line that is completed, and quietly if no node answers.

use clap_complete::Shell;

/// Adds the names to a script.
pub(crate) fn with_keyspaces(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => script + BASH,
        Shell::Zsh => in_zsh(&script),
        Shell::Fish => script + FISH,
        _ => script,
    }
}

/// `_zerohop_named` completes names where a keyspace is expected, and leaves the rest to the
/// generated function. Words are those of the line, because the shell separates words at `:` and
/// `=` too.
const BASH: &str = r#"
# Prints the names of keyspaces. The arguments are the words before the cursor.
_zerohop_keyspaces() {
    local options=() words=("$@") i
    for ((i = 1; i < ${#words[@]}; i++)); do
        case "${words[i]}" in
            --endpoint|--secret-file|--token-file|--tls-ca)
                options+=("${words[i]}" "${words[i + 1]}")
                i=$((i + 1))
                ;;
            --endpoint=*|--secret-file=*|--token-file=*|--tls-ca=*)
                options+=("${words[i]}")
                ;;
        esac
    done
    command "${words[0]}" keyspace list --timeout 1s "${options[@]}" 2>/dev/null </dev/null | cut -d: -f1
}

_zerohop_named() {
    local line="${COMP_LINE:0:COMP_POINT}" words previous current
    read -ra words <<< "${line}"
    if [[ "${line}" == *[[:space:]] ]]; then
        words+=("")
    fi
    current="${words[${#words[@]} - 1]}"
    previous="${words[${#words[@]} - 2]}"
    unset "words[${#words[@]} - 1]"
    case "${words[*]:1}" in
        "token "*) ;;
        "keyspace alter"|"keyspace drop"|"keyspace show"|"keyspace split"|"partition list"|"partition split"|"recover acknowledge")
            if [[ "${current}" != -* ]]; then
                COMPREPLY=($(compgen -W "$(_zerohop_keyspaces "${words[@]}")" -- "${current}"))
                return 0
            fi
            ;;
        *)
            if [[ "${previous}" == -k || "${previous}" == --keyspace ]]; then
                COMPREPLY=($(compgen -W "$(_zerohop_keyspaces "${words[@]}")" -- "${current}"))
                return 0
            fi
            ;;
    esac
    _zerohop "$@"
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _zerohop_named -o nosort -o bashdefault -o default zerohop
else
    complete -F _zerohop_named -o bashdefault -o default zerohop
fi
"#;

const FISH: &str = r#"
# Names of keyspaces, from the cluster at the default endpoint.
function __fish_zerohop_keyspaces
    command zerohop keyspace list --timeout 1s 2>/dev/null </dev/null | string replace -r ':.*' ''
end
complete -c zerohop -n "__fish_seen_subcommand_from kv txn blob bench backup verify restore; and not __fish_seen_subcommand_from token" -s k -l keyspace -x -a "(__fish_zerohop_keyspaces)"
complete -c zerohop -n "__fish_seen_subcommand_from keyspace; and __fish_seen_subcommand_from alter drop show split" -f -a "(__fish_zerohop_keyspaces)"
complete -c zerohop -n "__fish_seen_subcommand_from partition; and __fish_seen_subcommand_from list split" -f -a "(__fish_zerohop_keyspaces)"
"#;

const ZSH: &str = r#"
# Names of keyspaces, from the cluster at the default endpoint.
_zerohop_keyspaces() {
    local -a names
    names=(${${(f)"$(command zerohop keyspace list --timeout 1s 2>/dev/null </dev/null)"}%%:*})
    compadd -a names
}

"#;

/// The options take names instead of files, and the function stands before the end of the script,
/// which runs the completion.
fn in_zsh(script: &str) -> String {
    let mut out = String::with_capacity(script.len() + ZSH.len());
    for line in script.lines() {
        if line.starts_with("if [ \"$funcstack[1]\"") {
            out.push_str(ZSH.trim_start());
            out.push('\n');
        }
        let is_option = ["'-k+[", "'--keyspace=["].iter().any(|option| line.starts_with(option));
        match is_option.then(|| line.split_once(":NAME:_default")).flatten() {
            Some((before, after)) => out.push_str(&format!("{before}:NAME:_zerohop_keyspaces{after}")),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}
