"""The scripts that `expdb completion` prints.

Invariant: what `expdb` answers is never evaluated: it goes into an array element as one text. Each
script sets nothing in the shell but its function and its registration.
"""

from __future__ import annotations

from typing import Final

BASH: Final = r"""_expdb_completion() {
    local line IFS=$'\n'
    COMPREPLY=()
    while read -r line; do
        case $line in
            plain,*) COMPREPLY+=("${line#plain,}") ;;
            dir,*) compopt -o dirnames 2>/dev/null ;;
            file,*) compopt -o default 2>/dev/null ;;
        esac
    done < <(env _EXPDB_COMPLETE=bash_complete COMP_LINE="${COMP_LINE:0:COMP_POINT}" \
        COMP_WORDS="${COMP_WORDS[*]:0:COMP_CWORD+1}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
        "$1" 2>/dev/null)
}
complete -o nosort -F _expdb_completion expdb 2>/dev/null || complete -F _expdb_completion expdb
"""

ZSH: Final = r"""#compdef expdb
_expdb_completion() {
    local kind value about
    local -a values lines
    (( $+commands[expdb] )) || return 1
    while IFS= read -r kind && IFS= read -r value && IFS= read -r about; do
        case $kind in
            plain) values+=("$value"); lines+=("$value${about:+  -- $about}") ;;
            dir) _path_files -/ ;;
            file) _path_files -f ;;
        esac
    done < <(_EXPDB_COMPLETE=zsh_complete COMP_WORDS="${(F)words[1,CURRENT]}" expdb 2>/dev/null)
    (( $#values )) && compadd -V unsorted -l -d lines -a values
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _expdb_completion "$@"
else
    compdef _expdb_completion expdb
fi
"""

FISH: Final = r"""function _expdb_completion
    set -lx _EXPDB_COMPLETE fish_complete
    set -lx COMP_WORDS (string join \n -- (commandline -opc) | string collect)
    set -lx COMP_CWORD (commandline -ct | string collect)
    for line in (command expdb 2>/dev/null)
        set -l parts (string split -m 1 , -- $line)
        switch $parts[1]
            case plain
                echo $parts[2]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
        end
    end
end
complete --no-files --command expdb --arguments '(_expdb_completion)'
"""

SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}
