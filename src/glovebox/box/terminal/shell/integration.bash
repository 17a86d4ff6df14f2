# What the persistent shell needs to tell where a command begins and ends. Needs bash 4.4.
#
# The functions come first; a shell that is started ahead has them before the user's own startup files, and all the rest after
# those, and after lines that set, read-only,
#   __gb_file     where the text of the next command is found, ended by a NUL
#   __gb_session  the token of prompt marks
# and __gb_token, the token of the current command.
#
# Marks are OSC sequences. They go to the terminal itself, so `exec >file` cannot hide them, and carry a random token.
# A program may find out the token and print an end mark of its own. So before its end mark the shell writes token and
# status to /proc/self/comm, which the kernel lets no other process do; the holder compares them.

# Fetch the command for token $1, from the file $2 if that is another, and what people who watch are shown in place of the typed
# line. That line evaluates the command afterwards, at top level, so that `declare`, `local`, traps and job control behave as if it
# had been typed.
__gb() {
    __gb_status=$?
    local - text
    set +eux
    __gb_token=$1 __gb_count=0
    mapfile -d '' -n 2 -t text <"${2-$__gb_file}" ||
        text=('echo "glovebox: the command could not be read" >&2; false')
    # A status other than 0 is handed on from the left of `&&`, where neither `set -e` nor an ERR trap sees it.
    if ((__gb_status)); then
        __gb=$'__gb_begin && :\n'${text[0]}
    else
        __gb=$'__gb_begin\n'${text[0]}
    fi
    __gb_shown=${text[1]-}
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
    __gb= __gb_agent=1
    builtin printf bash >|"$__gb_name"
    builtin printf '\e]1807;T;%s\a%s\e]1807;C;%s\a' "$__gb_token" "$__gb_shown" "$__gb_token" >"$__gb_tty"
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
    # What bash would say of jobs just before the prompt is part of the answer. Those that run are no news.
    if [[ $! || ${__gb_stopped-} || $status -gt 128 ]]; then
        __gb_stopped=1
        builtin jobs -nr
        builtin printf '\e]1807;J;%s\a' "$__gb_token" >"$__gb_tty"
        builtin jobs -n >"$__gb_tty"
    fi
    __gb_count=$(((__gb_count + 1) % 10))
    builtin printf 'bash:%s:%s:%s' "${__gb_token:0:4}" "$status" "$__gb_count" >|"$__gb_name"
    # One printf is one write, which the output of a background job cannot tear apart.
    builtin printf '\e]1807;D;%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\a' "$__gb_token" \
        "$status" "$!" "${user@P}" "${host@P}" "${PWD@Q}" "${python@Q}" >"$__gb_tty"
    __gb_arm
    __gb_prompt=()
    if ((${#__gb_own[@]})) && [[ ! ${__gb_agent-} || ${__gb_pwd-} != "$PWD" ]]; then
        for directory in "${!__gb_own[@]}"; do
            __gb_prompt[directory]=${__gb_own[directory]}
        done
    fi
    __gb_agent= __gb_pwd=$PWD
    return "$status"
}

# After the user's own entries of PROMPT_COMMAND, to say that they are over, and with them what they print.
__gb_over() {
    local status=$? -
    set +eux
    ((${#__gb_prompt[@]})) && builtin printf '\e]1807;H;%s\a' "$__gb_session" >"$__gb_tty"
    return "$status"
}

# The prompt is enclosed in two marks. A third is printed when a line is entered: a person may use this shell too.
__gb_arm() {
    if [[ ${PS1-} != "$__gb_before"*"$__gb_after" ]]; then
        PS1=${PS1-}
        PS1=${PS1//"$__gb_before"/}
        PS1=$__gb_before${PS1//"$__gb_after"/}$__gb_after
    fi
    [[ ${PS0-} == *"$__gb_entered"* ]] || PS0=$__gb_entered${PS0-}
    export -n PS0 PS1 # a shell inside this one must not show our marks
    [[ ${PROMPT_COMMAND-} == "$__gb_hook" && ${#PROMPT_COMMAND[@]} == 1 && ${#__gb_own[@]} == 0 ]] || __gb_hook
}

# Be before the entries that the user has in PROMPT_COMMAND, so that the answer does not wait for them. Theirs are kept in __gb_own,
# and replaced by lines that evaluate __gb_prompt, where __gb_end puts them when they are due: such entries follow the directory, and
# a person who uses this shell, but cost every command of an agent their time. The text stays to be seen, as an argument of `:`.
# Bash runs more than one entry since 5.1.
__gb_hook() {
    local index known text first
    [[ ${PROMPT_COMMAND+set} && ${PROMPT_COMMAND@a} == *r* ]] && return
    for index in "${!PROMPT_COMMAND[@]}"; do
        text=${PROMPT_COMMAND[index]}
        [[ $index == 1807 || $text == "${__gb_line[index]-}" ]] && continue
        for known in "${!__gb_line[@]}"; do
            text=${text//"${__gb_line[known]}"/"${__gb_own[known]}"}
        done
        # Something was changed within a line of ours.
        [[ $text == *'"${__gb_prompt['* ]] && builtin eval "text=${text#*$'\n': }"
        [[ $text == *'"${__gb_prompt['* ]] && text=
        __gb_own[index]=${text//"$__gb_hook"/:} __gb_pwd=
    done
    for index in "${!__gb_own[@]}"; do
        if [[ ! ${PROMPT_COMMAND[index]+set} || ! ${__gb_own[index]} ]]; then
            unset "__gb_own[index]" "__gb_line[index]"
            continue
        fi
        first=
        ((index)) || first=$__gb_hook$'\n'
        __gb_line[index]=$first'\eval "${__gb_prompt['$index$']-}"\n: '${__gb_own[index]@Q}
        PROMPT_COMMAND[index]=${__gb_line[index]}
    done
    [[ ${__gb_own[0]+set} ]] || PROMPT_COMMAND=$__gb_hook
    if ((${#__gb_own[@]})); then
        PROMPT_COMMAND[1807]='{ __gb_over; } >/dev/null 2>&1'
    elif [[ ${PROMPT_COMMAND[1807]+set} ]]; then
        unset 'PROMPT_COMMAND[1807]'
    fi
}

readonly -f __gb __gb_begin __gb_end __gb_over __gb_arm __gb_hook
# After the user's own startup files.

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
# Nor can a process change its name there.
__gb_name=/proc/$$/comm
{ builtin printf bash >|"$__gb_name"; } 2>/dev/null || __gb_name=/dev/null
readonly __gb_name
readonly __gb_before="\[\e]1807;A;$__gb_session\a\]" __gb_after="\[\e]1807;B;$__gb_session\a\]"
__gb_own=() __gb_line=() __gb_prompt=()
readonly __gb_entered="\e]1807;P;$__gb_session\a" __gb_hook='{ __gb_end; } >/dev/null 2>&1'
alias git='git --no-pager'
# The user's own prompt may run programs each time.
PS1='\w \$ '
__gb_arm
