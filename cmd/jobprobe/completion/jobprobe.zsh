#compdef jobprobe
# jobprobe completion for zsh: source <(jobprobe completion zsh), or this text as
# _jobprobe in a directory of $fpath.
_jobprobe() {
    local -a found
    found=("${(@f)$(${~words[1]} complete zsh "--word=$words[CURRENT]" -- "${(@)words[2,CURRENT-1]}" 2>/dev/null)}")
    [[ $PREFIX == --*=* ]] && compset -P '*='
    case $found[1] in
    :file) _files ;;
    :dir) _files -/ ;;
    ?*) _describe -V jobprobe found ;;
    *) return 1 ;;
    esac
}
if [ "$funcstack[1]" = _jobprobe ]; then
    _jobprobe "$@"
else
    compdef _jobprobe jobprobe
fi
