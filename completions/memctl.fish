# fish completion for memctl

function __memctl_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer (env _MEMCTL_COMPLETE=fish $words 2>/dev/null)
    string replace -rf '^:' '' -- $answer
    contains -- files $answer; and __fish_complete_path (commandline -ct)
end

complete -c memctl -f -k -a '(__memctl_complete)'
