"""Commands that would lead a simpler shell integration astray."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.box.terminal.console import Console, console
from tests.support.waiting import until

#: What is sent, and what comes back: the output and the exit code.
MEANINGS = [
    ("echo 'a  b $HOME \"x\"'", 'a  b $HOME "x"', 0),
    ('echo "a\tb"', "a       b", 0),
    ("echo hi !! !x", "hi !! !x", 0),
    ("cat <<EOF\nhello\n\n  indented\nEOF", "hello\n\n  indented", 0),
    ("cat <<'EOF'\n$x\nEOF\necho second", "$x\nsecond", 0),
    ("for i in 1 2; do\n  echo $i\ndone", "1\n2", 0),
    ("find . -maxdepth 0 -exec echo {} \\;", ".", 0),
    ("echo a\\|b; echo end;", "a|b\nend", 0),
    ("# just a comment", "", 0),
    ("# comment\necho after", "after", 0),
    ("-n", "bash: -n: command not found", 127),
    ("Enter", "bash: Enter: command not found", 127),
    ("echo a\\", "a\\", 0),
    ("if then fi", "bash: syntax error near unexpected token `then'", 2),
    ('echo "unterminated', "bash: unexpected EOF while looking for matching `\"'", 2),
    ("if true; then echo", "bash: syntax error: unexpected end of file", 2),
    ("(echo", "bash: syntax error: unexpected end of file", 2),
    ("no_such_command_xyz", "bash: no_such_command_xyz: command not found", 127),
    ("cd /no/such", "bash: cd: /no/such: No such file or directory", 1),
    ("local x=1", "bash: local: can only be used in a function", 1),
    ("bash -c 'kill -9 $$'", "Killed", 137),
    ("(kill -9 $BASHPID)", "Killed", 137),
    ("type git", "git is aliased to `git --no-pager'", 0),
    ("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo tty", "tty", 0),
    ("stty size; echo $TERM", "1000 1000\ntmux-256color", 0),
    ("printf 'no newline'", "no newline", 0),
    ("printf '\\n\\nmiddle\\n\\n'", "middle", 0),
    ("printf 'a\\xe2'; sleep 0.05; printf '\\x82'; sleep 0.05; printf '\\xac\\n'", "a€", 0),
    ("echo '日本語 🎉 ok'", "日本語 🎉 ok", 0),
    ("printf '\\033[?1000h\\033[?1049hfull screen'; echo plain", "full screenplain", 0),
    ("/bin/echo " + "x" * 200_000, "bash: /bin/echo: Argument list too long", 126),
    ("set -x; echo hi $(echo in); set +x", "++ echo in\n+ echo hi in\nhi in\n+ set +x", 0),
    ("echo `", "bash: unexpected EOF while looking for matching ``'", 2),
    ("printf 'a\\0b\\n'", "ab", 0),
    ("printf '10%%\\r50%%\\r100%%\\n'", "100%", 0),
    ("kill -INT $$; echo not reached", "", 130),
    ("kill -TERM $$; kill -QUIT $$; echo survived", "survived", 0),
    ("f() { return 7; }; f", "", 7),
    ("(IFS=/; x=a/b; echo $x; set -f; echo *)", "a b\n*", 0),
    ("stty -echo; echo quiet; stty echo", "quiet", 0),
    ("cat /dev/null", "", 0),
]

#: What is left behind in a shell.
DISTURBANCES = [
    "set -u",
    "set -f; IFS=x; shopt -s extglob nocasematch",
    "set -o posix",
    "set -o vi",
    "PS1='foo> '; PS2='bar> '; PS4='baz> '",
    "export PS1='foo> '",
    "unset PS1",
    "PROMPT_COMMAND='true'",
    "unset PROMPT_COMMAND",
    "PROMPT_COMMAND=()",
    "export LC_ALL=C; TERM=dumb",
    "unset -f __gb __gb_begin __gb_end",
    "unset PATH",
    "HISTCONTROL=; set +o history",
    "trap 'true' DEBUG",
    "trap 'true' ERR",
    "stty -echo",
    "stty raw",
    "exec 2>/dev/null",
    "exec 9>&1 8<&0 7>/dev/null",
    "alias echo='echo'; alias builtin=false; printf() { :; }",
    "umask 777; ulimit -f 0",
    "suspend",
    "exec bash",
    "printf '\\033]1807;D;'",
    "printf '\\033[?1000h\\033(0\\033='",
    "unset PS0 PS1 PS2 PS4 PROMPT_COMMAND",
    "readonly PS0 PS1 PS4 PROMPT_COMMAND IFS PATH",
    "IFS=/:.; set -f; shopt -s extglob failglob nullglob dotglob",
    "set -o noclobber -o nounset -o pipefail",
    "set -n",
    "set +o emacs",
    "bind '\"\\C-u\": self-insert'; bind '\"\\C-l\": \"false\\n\"'; bind 'set editing-mode vi'",
    "shopt -u expand_aliases; shopt -s histverify histreedit",
    "trap 'echo bye' EXIT",
    "trap '' INT; trap '' TERM HUP; trap 'true' RETURN; set -T",
    "export TERM=nonsense LANG=xx_XX; unset LC_ALL",
    "unset TERM LANG HOME USER PWD OLDPWD",
    "printf '\\033[?1000h\\033[?1003h\\033[?1006h\\033[?1049h\\033[?25l\\033[2J'",
    "reset",
    "stty -icanon -isig -opost -icrnl",
    "kill -STOP $$",
    "mkdir gone; cd gone; rmdir ../gone",
    'echo() { builtin echo "$@"; }; test() { false; }',
    "history -c; set +o history; HISTFILE=/dev/full",
    "sleep 100 & disown",
    "cat <<EOF\nno end",
]


async def test_a_command_means_what_it_would_mean_when_typed(shell: Console) -> None:
    wrong = {}
    for command, content, exit_code in MEANINGS:
        answer = await shell.run(command)
        fine = await shell.run("echo fine")
        seen = (answer.content, answer.metadata.exit_code, fine.content)
        if seen != (content, exit_code, "fine"):
            wrong[command[:100]] = seen
    assert wrong == {}


async def test_whatever_a_command_does_to_the_shell_the_next_one_works(shell: Console) -> None:
    wrong = {}
    few_at_a_time = asyncio.Semaphore(4)

    async def disturb(session: str, command: str) -> None:
        async with few_at_a_time:
            await shell.run(command, session=session)
            first = await shell.run("echo one; (exit 5)", session=session)
            second = await shell.run("echo $?; cd /", session=session)
        seen = (first.content, first.metadata.exit_code, second.content, second.metadata.working_dir)
        if seen != ("one", 5, "5", "/") or "ended" in first.metadata.prefix + first.metadata.suffix:
            wrong[command] = seen

    async with asyncio.TaskGroup() as tasks:
        for number, command in enumerate(DISTURBANCES):
            tasks.create_task(disturb(f"shell{number}", command))
    assert wrong == {}


async def test_the_exit_status_is_known_when_the_hook_was_removed(shell: Console) -> None:
    answer = await shell.run("unset PROMPT_COMMAND; echo out; (exit 4)")
    assert (answer.content, answer.metadata.exit_code) == ("out", 4)


async def test_a_program_cannot_fake_the_end_of_its_command(shell: Console) -> None:
    forged = "\\033]1807;D;deadbeef\\x1f0\\x1f\\x1fme\\x1fhost\\x1f\\x27/\\x27\\x1f\\x27\\x27\\a"
    answer = await shell.run(f"printf '{forged}###PS1END###\\n'; sleep 0.2; echo real; (exit 7)")
    assert (answer.content, answer.metadata.exit_code) == ("###PS1END###\nreal", 7)
    assert answer.metadata.working_dir == str(shell.workspace)


async def test_marks_that_were_seen_before_are_output(shell: Console) -> None:
    await shell.run("old=$__gb_token")
    stale = "\\033]1807;%s;%s\\x1f0\\x1f\\x1fme\\x1fhost\\x1f\\x27/\\x27\\x1f\\x27\\x27\\a"
    answer = await shell.run(
        f'printf \'{stale}\' D $old C $old D "$__gb_session" C $__gb_token P "$__gb_session"; '
        "sleep 0.2; echo real; (exit 7)"
    )
    assert (answer.content, answer.metadata.exit_code) == ("real", 7)
    assert answer.metadata.working_dir == str(shell.workspace)
    assert await shell.output("echo next") == "next"


async def test_a_shell_with_errexit_ends_at_the_first_failure_and_not_before(shell: Console) -> None:
    await shell.run("set -e; if false; then :; fi; false || true")
    assert await shell.output("echo alive") == "alive"
    answer = await shell.run("false; echo not reached")
    assert answer.content == ""
    assert answer.metadata.suffix.startswith("\n[The shell itself ended with exit code 1")


async def test_an_unset_variable_is_an_error_only_for_the_command(shell: Console) -> None:
    await shell.run("set -u")
    answer = await shell.run("echo $nope")
    assert (answer.content, answer.metadata.exit_code) == ("bash: nope: unbound variable", 1)


async def test_tracing_shows_the_command_and_nothing_of_ours(shell: Console) -> None:
    assert await shell.output("set -x") == ""
    assert await shell.output("echo hi") == "+ echo hi\nhi"
    assert await shell.output("for i in 1; do\n  echo $i\ndone") == "+ for i in 1\n+ echo 1\n1"
    assert await shell.output("set +x") == "+ set +x"


async def test_a_debug_trap_sees_the_command(shell: Console) -> None:
    await shell.run("trap 'echo \"<$BASH_COMMAND>\"' DEBUG")
    assert await shell.output("echo hi") == "<echo hi>\nhi"


async def test_output_may_go_elsewhere(shell: Console) -> None:
    assert await shell.output("exec >out") == ""
    assert await shell.output("echo hidden") == ""
    assert await shell.output("exec >/dev/tty; cat out") == "hidden"


async def test_a_deleted_directory_is_still_the_current_one(shell: Console) -> None:
    answer = await shell.run("mkdir gone && cd gone && rmdir ../gone")
    assert (answer.content, answer.metadata.working_dir) == ("", f"{shell.workspace}/gone")
    assert (await shell.run("cd ..")).metadata.working_dir == str(shell.workspace)


async def test_a_background_job_that_prints_while_nothing_runs_is_heard(shell: Console) -> None:
    await shell.run("(until [ -e go ]; do sleep 0.01; done; echo late; touch gone) &")
    await shell.run("true")
    (shell.workspace / "go").touch()
    await until((shell.workspace / "gone").exists, "the job printed")
    answer = await shell.run("echo next")
    assert answer.content.startswith("late\necho next\nnext")


async def test_a_background_storm_does_not_hide_the_end_of_a_command(shell: Console) -> None:
    await shell.run("(while :; do echo storm; done) & sleep 0.1")
    for number in range(20):
        answer = await shell.run(f"(exit {number})")
        assert answer.metadata.exit_code == number
    answer = await shell.run("kill %1; wait 2>/dev/null; true")
    assert answer.metadata.exit_code == 0
    assert await shell.output("echo quiet") == "quiet"


async def test_a_command_of_a_megabyte_arrives_unchanged(shell: Console) -> None:
    text = "".join(f"line {number}\t'quoted' \\ é\n" for number in range(45_000))
    answer = await shell.run(f"cat > big <<'END OF TEXT'\n{text}END OF TEXT")
    assert answer.metadata.exit_code == 0
    assert (shell.workspace / "big").read_text() == text


async def test_a_shorter_command_is_not_followed_by_the_rest_of_a_longer_one(shell: Console) -> None:
    await shell.run("echo " + "x" * 10_000)
    assert await shell.output("echo short") == "short"


async def test_a_line_of_ten_megabytes_keeps_its_beginning_and_end(shell: Console) -> None:
    answer = await shell.run("echo begin$(head -c 10000000 /dev/zero | tr '\\0' x)end", blocking=True)
    assert len(answer.content) == 30_047
    assert answer.content.startswith("beginxxx")
    assert answer.content.endswith("xxxend")


async def test_a_full_screen_program_shows_its_screen_and_leaves_none(shell: Console) -> None:
    (shell.workspace / "screen.sh").write_text(
        "printf '\\033[?1049h\\033[Htitle\\033[3;1Hbody'\nread -r line\n"
        "printf '\\033[5;1Hread %s' \"$line\"\n"
        "read -r line\nprintf '\\033[?1049l'\necho over\n"
    )
    first = await shell.run("bash screen.sh", timeout=1)
    assert first.content == "title\n\nbody"
    second = await shell.type("it", timeout=1)
    assert second.content.splitlines()[0] == "title"
    assert second.content.splitlines()[4] == "read it"
    assert (await shell.type("go")).content == "over"


async def test_removing_the_files_of_the_shell_does_not_stop_it(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    async with console(tmp_path) as shell:
        directory = await shell.output("echo ${__gb_file%/*}")
        await shell.run(f"rm -rf {directory}")
        assert await shell.output("echo fine") == "fine"
        await shell.run(f"rm -f {directory}/command")
        assert await shell.output("echo fine again") == "fine again"


async def test_startup_files_of_the_user_are_read(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".bashrc").write_text("echo noise; alias ll='echo LL'; export FROM_RC=1; set -u\n")
    async with console(tmp_path) as shell:
        answer = await shell.run("ll; echo $FROM_RC")
        assert (answer.content, answer.metadata.exit_code) == ("LL\n1", 0)


@pytest.mark.parametrize("content", ["exit 3\n", "exec true\n", "kill -9 $$\n", "PROMPT_COMMAND=x; return\n"])
async def test_startup_files_that_end_the_shell_are_left_out(tmp_path: Path, content: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".bashrc").write_text(content)
    async with console(tmp_path) as shell:
        answer = await shell.run("echo fine")
        assert answer.metadata.exit_code == 0
        assert answer.content.startswith("fine")


async def test_extended_patterns_and_arrays_last_from_command_to_command(shell: Console) -> None:
    await shell.run("shopt -s extglob; declare -A map=([a]=1 [b]=2); map[c]=3; list=(x 'y z')")
    assert await shell.output("touch aa ab b; echo a@(a|b)") == "aa ab"
    assert await shell.output('echo "${#map[@]} ${map[c]} ${list[1]}"') == "3 3 y z"


async def test_an_error_trap_fires_and_an_exit_trap_waits_for_the_end(shell: Console) -> None:
    await shell.run("trap 'echo trapped' ERR; trap 'echo bye' EXIT")
    answer = await shell.run("false")
    assert set(answer.content.split()) == {"trapped"}
    assert answer.metadata.exit_code == 1
    assert await shell.output("true") == ""
    assert (await shell.run("exit 2")).content == "exit\nbye"
    assert await shell.output("echo fresh") == "fresh"


async def test_a_here_document_without_an_end_ends_with_the_command(shell: Console) -> None:
    answer = await shell.run("cat <<EOF\nlast")
    assert answer.content.splitlines()[-1] == "last"
    assert await shell.output("echo next") == "next"


async def test_errors_may_go_elsewhere(shell: Console) -> None:
    await shell.run("exec 2>errors")
    assert (await shell.run("echo out; ls /no/such/file")).content == "out"
    assert await shell.output("grep -c /no/such/file errors") == "1"
    await shell.run("exec 2>/dev/tty")
    assert "/no/such/file" in (await shell.run("ls /no/such/file")).content
