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
