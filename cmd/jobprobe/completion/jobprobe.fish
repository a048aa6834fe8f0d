# jobprobe completion for fish: jobprobe completion fish | source
function __jobprobe_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l found ($words[1] complete fish "--word=$word" -- $words[2..-1] 2>/dev/null)
    set -l flag (string match -r -- '^--[^=]*=' $word)
    switch "$found[1]"
        case :file
            __fish_complete_path (string replace -- "$flag" '' $word) | string replace -r '^' -- "$flag"
        case :dir
            __fish_complete_directories (string replace -- "$flag" '' $word) '' | string replace -r '^' -- "$flag"
        case '*'
            printf '%s\n' $found
    end
end
complete -c jobprobe -f -k -a '(__jobprobe_complete)'
