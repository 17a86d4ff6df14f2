# What the persistent shell needs to tell where a command begins and ends. Needs bash 4.4.
#
# Comes after the user's own startup files and after lines that set, read-only,
#   __gb_file     where the text of the next command is found, ended by a NUL
#   __gb_session  the token of prompt marks
# and __gb_token, the token of the current command.
#
# Marks are OSC sequences. They go to the terminal itself, so `exec >file` cannot hide them, and carry a random token,
# so a program cannot print one that counts.

# The line that is typed for each command starts with a blank to stay out of the history.
HISTCONTROL=ignoreboth
bind 'set enable-bracketed-paste off' 2>/dev/null
bind 'set bell-style none' 2>/dev/null
bind 'set bind-tty-special-chars off' 2>/dev/null
PS2=
# gVisor has a /dev/tty that cannot be opened: there the terminal is known by its own name only.
__gb_tty=/dev/tty
{ : >/dev/tty; } 2>/dev/null || __gb_tty=$(tty)
readonly __gb_tty
alias git='git --no-pager'

# Fetch the command for token $1. The typed line evaluates it afterwards, at top level, so that
# `declare`, `local`, traps and job control behave as if it had been typed.
__gb() {
    __gb_status=$?
    local - text
    set +eux
    __gb_token=$1
    mapfile -d '' -n 1 -t text <"$__gb_file" ||
        text=('echo "glovebox: the command could not be read" >&2; false')
    # A status other than 0 is handed on from the left of `&&`, where neither `set -e` nor an ERR trap sees it.
    if ((__gb_status)); then
        __gb=$'__gb_begin && :\n'${text[0]}
    else
        __gb=$'__gb_begin\n'${text[0]}
    fi
    __gb_killed=
    [[ ${text[0]} == *kill* ]] && __gb_killed=1
    # `eval` counts as a level of `set -x`; on a terminal, a backspace takes its extra `+` back.
    if [[ $PS4 == '+ ' && -t 2 ]]; then
        PS4=$'+\b '
    elif [[ $PS4 == $'+\b ' && ! -t 2 ]]; then
        PS4='+ '
    fi
}

# The first line of what is evaluated: whatever `set -x` or a DEBUG trap said about the lines of ours is
# before the mark, and `$?` is again that of the previous command.
__gb_begin() {
    local -
    set +eux
    __gb=
    builtin printf '\e]1807;C;%s\a' "$__gb_token" >"$__gb_tty"
    return "$__gb_status"
}

# Before each prompt: say how the command (of token $1, if the variable may be lost) ended, and put back what it may have replaced.
__gb_end() {
    local status=$? - IFS=: directory python= user='\u' host='\h'
    set +eux -f
    builtin enable printf mapfile eval
    __gb_token=${1-$__gb_token}
    if [[ $- == *h* ]] && ! declare -F python; then
        # The shell's own search, many times faster than a loop.
        builtin hash python && python=${BASH_CMDS[python]-}
    else
        for directory in $PATH; do
            if [[ -f ${directory:-.}/python && -x ${directory:-.}/python ]]; then
                python=${directory:-.}/python
                break
            fi
        done
    fi
    # A job takes a moment to die, and bash tells of it with the prompt if it has: now, or one command too late.
    if [[ ${__gb_killed-} ]] && compgen -A job; then
        : "$(sleep 0.01)"
    fi
    # One printf is one write, which the output of a background job cannot tear apart.
    builtin printf '\e]1807;D;%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\a' "$__gb_token" \
        "$status" "$!" "${user@P}" "${host@P}" "${PWD@Q}" "${python@Q}" >"$__gb_tty"
    __gb_arm
    return "$status"
}

# The prompt is enclosed in two marks; what bash says about jobs comes between D and A.
__gb_arm() {
    local begin="\[\e]1807;A;$__gb_session\a\]" end="\[\e]1807;B;$__gb_session\a\]"
    local hook='{ __gb_end; } >/dev/null 2>&1'
    if [[ ${PS1-} != "$begin"*"$end" ]]; then
        PS1=${PS1-}
        PS1=${PS1//"$begin"/}
        PS1=$begin${PS1//"$end"/}$end
    fi
    # Printed when a line is entered: a person may use this shell too.
    local entered="\e]1807;P;$__gb_session\a"
    [[ ${PS0-} == *"$entered"* ]] || PS0=$entered${PS0-}
    export -n PS0 PS1 # a shell inside this one must not show our marks
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 501)); then
        [[ ${PROMPT_COMMAND-} == "$hook"* ]] || PROMPT_COMMAND="$hook${PROMPT_COMMAND:+; $PROMPT_COMMAND}"
    elif [[ ${PROMPT_COMMAND[1807]-} != "$hook" ]]; then
        # A far index survives `PROMPT_COMMAND=...`, which replaces the first entry only.
        PROMPT_COMMAND[1807]=$hook
    fi
}

readonly -f __gb __gb_begin __gb_end __gb_arm
# The user's own prompt may run programs each time.
PS1='\w \$ '
__gb_arm
