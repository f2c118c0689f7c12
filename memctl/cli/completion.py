"""`memctl completion`: the scripts that make TAB work.

They ask memctl itself for the words, see `memctl.cli.candidates`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from memctl.cli.context import Context
from memctl.cli.options import choice
from memctl.errors import UsageError

_BASH = r"""
# bash completion for memctl

_memctl() {
    local program=memctl kind=words line
    [[ $1 == */* ]] && program=${1/#\~\//$HOME/}
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            words | files) kind=$line ;;
            :*) COMPREPLY+=("${line#:}") ;;
        esac
    done < <(_MEMCTL_COMPLETE=bash "$program" "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    if [[ $kind == files ]]; then
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen -f -- "$2")
        type compopt &>/dev/null && compopt -o filenames
    fi
}

complete -o nosort -F _memctl memctl 2>/dev/null || complete -F _memctl memctl
"""

_ZSH = r"""
#compdef memctl
# zsh completion for memctl

_memctl() {
    local kind=words line ret=1
    local -a found
    _MEMCTL_COMPLETE=zsh ${~words[1]} "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null |
    while IFS= read -r line; do
        case $line in
            (words|files) kind=$line ;;
            (:*) line=${${line#:}//:/\\:}; found+=("${${line%$'\t'}/$'\t'/:}") ;;
        esac
    done
    (( $#found )) && _describe -V memctl found && ret=0
    [[ $kind == files ]] && _files && ret=0
    return ret
}

if [[ $funcstack[1] == _memctl ]]; then
    _memctl "$@"
else
    compdef _memctl memctl
fi
"""

_FISH = r"""
# fish completion for memctl

function __memctl_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer (env _MEMCTL_COMPLETE=fish $words 2>/dev/null)
    string replace -rf '^:' '' -- $answer
    contains -- files $answer; and __fish_complete_path (commandline -ct)
end

complete -c memctl -f -k -a '(__memctl_complete)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(
    ctx: typer.Context,
    shell: Annotated[
        str,
        typer.Argument(metavar="SHELL", help=f"{', '.join(_SCRIPTS)}.", autocompletion=choice(*_SCRIPTS)),
    ],
) -> None:
    """Print the completion script of a shell: bash, zsh or fish.

    It completes commands, options, their values, configured stores, and the namespaces and keys of the store
    that the line names.

    Examples:
      eval "$(memctl completion bash)"         # in ~/.bashrc
      eval "$(memctl completion zsh)"          # in ~/.zshrc, after compinit
      memctl completion fish | source          # in ~/.config/fish/config.fish
    """
    if shell not in _SCRIPTS:
        raise UsageError(
            f"{shell!r} is no shell that memctl completes in", hint=f"known: {', '.join(_SCRIPTS)}"
        )
    context: Context = ctx.obj
    context.write(script(shell).encode())


def script(shell: str) -> str:
    """Return the script of a shell in `bash`, `zsh`, `fish`."""
    return _SCRIPTS[shell].lstrip("\n")
