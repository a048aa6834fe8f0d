# jobprobe completion for bash: source <(jobprobe completion bash)
_jobprobe() {
    local cur=${COMP_WORDS[COMP_CWORD]} line IFS=$'\n'
    local before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    [ "$cur" = = ] && cur= # bash makes three words of --flag=value
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :file) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")) ;;
        :dir) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")) ;;
        *) COMPREPLY+=("$line") ;;
        esac
    done < <("${1/#\~/$HOME}" complete bash "--word=$cur" -- "${before[@]}" 2>/dev/null)
}
complete -F _jobprobe jobprobe
