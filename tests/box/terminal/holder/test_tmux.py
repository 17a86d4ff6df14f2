"""Shells in tmux, through the seam that the holder uses."""

from __future__ import annotations

import os
import pty
import pwd
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glovebox.box.terminal.holder.control_mode import ControlMode, Marks
from glovebox.box.terminal.holder.terminal import ShellTerminal
from glovebox.box.terminal.holder.tmux import TmuxServer, attach_command
from glovebox.box.terminal.holder.wire import ShellSpec
from tests.support.waiting import LIMIT, wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]

ENVIRONMENT = {"PATH": os.defpath, "HOME": "/", "TERM": "xterm", "LANG": "C.UTF-8"}


def running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def reap() -> None:
    """As the holder does with its children."""
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        if Path(f"/proc/{pid}/comm").read_text().startswith("tmux"):
            os.waitpid(int(pid), 0)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="gb") as path:
        yield Path(path)


@pytest.fixture
def server(directory: Path) -> Iterator[TmuxServer]:
    opened = TmuxServer(str(directory / "socket"))
    yield opened
    opened.close()
    reap()


def shell(
    *arguments: str,
    name: str = "shell",
    environment: dict[str, str] | None = None,
    cwd: str = "/",
    size: tuple[int, int] = (30, 100),
    user: pwd.struct_passwd | None = None,
) -> ShellSpec:
    return ShellSpec(
        name=name,
        arguments=list(arguments),
        environment=environment or ENVIRONMENT,
        cwd=cwd,
        rows=size[0],
        columns=size[1],
        uid=user and user.pw_uid,
        gid=user and user.pw_gid,
        groups=(user.pw_gid,) if user else (),
    )


def bash(script: str, name: str = "shell", size: tuple[int, int] = (30, 100)) -> ShellSpec:
    return shell("bash", "-c", script, name=name, size=size)


def read_until(source: ShellTerminal, enough: Callable[[bytearray], bool]) -> bytes:
    """What a source prints, until that is enough or the source has ended."""
    waiting = select.poll()
    waiting.register(source.fileno(), select.POLLIN)
    deadline = time.monotonic() + LIMIT
    printed = bytearray()
    while (piece := source.read()) is not None:
        printed += piece
        if enough(printed):
            break
        assert waiting.poll(max(0.0, deadline - time.monotonic()) * 1000), f"no more than {printed[-500:]!r}"
    return bytes(printed)


def read_to(source: ShellTerminal, text: bytes) -> bytes:
    printed = read_until(source, lambda printed: text in printed)
    assert text in printed
    return printed


def read_all(source: ShellTerminal) -> bytes:
    return read_until(source, lambda printed: False)


def type_all(source: ShellTerminal, data: bytes) -> None:
    waiting = select.poll()
    waiting.register(source.writable_fileno(), select.POLLOUT)
    while data:
        data = data[source.write(data) :]
        assert not data or waiting.poll(LIMIT * 1000)


def lines(printed: bytes) -> list[str]:
    return printed.decode().split("\r\n")[:-1]


class TestPrinting:
    def test_every_byte_arrives_as_it_was_printed(self, server: TmuxServer, directory: Path) -> None:
        data = random.Random(1).randbytes(50_000) + bytes(range(256)) * 3
        (directory / "data").write_bytes(data)
        source: ShellTerminal = server.open(bash(f"stty raw; cat {directory}/data"))
        assert read_all(source) == data

    def test_half_a_character_does_not_wait_for_the_other_half(self, server: TmuxServer) -> None:
        source = server.open(bash(r"stty raw -echo; printf '\342'; head -c1 >/dev/null; printf '\202\254'"))
        assert read_to(source, b"\xe2") == b"\xe2"
        type_all(source, b".")
        assert read_all(source) == b"\x82\xac"

    def test_sequences_for_others_than_terminals_pass(self, server: TmuxServer) -> None:
        source = server.open(bash(r"printf 'a\033]1807;token;0\ab\033]1808;1;S0\ac\030d'"))
        assert read_all(source) == b"a\033]1807;token;0\ab\033]1808;1;S0\ac\x18d"

    def test_a_lot_of_output_is_complete(self, server: TmuxServer) -> None:
        source = server.open(bash("seq 1000000"))
        assert read_all(source) == b"".join(b"%d\r\n" % number for number in range(1, 1_000_001))

    def test_the_last_words_of_a_shell_wait_for_a_late_reader(self, server: TmuxServer) -> None:
        for number in range(8):
            source = server.open(bash("head -c 15000 /dev/zero | tr '\\0' x", name=f"late{number}"))
            wait_until(lambda pid=source.pid: not running(pid), what="the shell has ended")  # type: ignore[misc]
            assert read_all(source) == b"x" * 15_000
            assert source.status() == 0

    def test_two_shells_do_not_mix(self, server: TmuxServer) -> None:
        first = server.open(bash("printf a; read line; printf $line", name="first"))
        second = server.open(bash("printf b; read line; printf $line", name="second"))
        assert (read_to(first, b"a"), read_to(second, b"b")) == (b"a", b"b")
        type_all(second, b"2\n")
        type_all(first, b"1\n")
        assert read_all(first) == b"1\r\n1"
        assert read_all(second) == b"2\r\n2"


class TestTyping:
    def test_every_byte_is_typed_as_it_is(self, server: TmuxServer, directory: Path) -> None:
        data = random.Random(2).randbytes(100_000) + bytes(range(256)) * 3
        script = f"stty raw -echo; printf ready; head -c {len(data)} > {directory}/typed"
        source = server.open(bash(script))
        read_to(source, b"ready")
        type_all(source, data)
        assert read_all(source) == b""
        assert (directory / "typed").read_bytes() == data

    def test_a_busy_tmux_takes_everything_later_and_in_order(
        self, server: TmuxServer, directory: Path
    ) -> None:
        data = random.Random(3).randbytes(60_000)
        script = f"stty raw -echo; echo $TMUX,ready; head -c {len(data)} > {directory}/typed; stty size"
        source = server.open(bash(script))
        tmux = int(read_to(source, b"ready").split(b",")[1])
        os.kill(tmux, signal.SIGSTOP)
        try:
            taken = source.write(data)
            source.resize(20, 70)
            assert 0 < taken < len(data)
            assert source.write(data[taken:]) == 0
        finally:
            os.kill(tmux, signal.SIGCONT)
        type_all(source, data[taken:])
        assert read_all(source) == b"20 70\n"
        assert (directory / "typed").read_bytes() == data

    def test_the_size_is_as_asked_for_and_can_change(self, server: TmuxServer) -> None:
        source = server.open(bash("stty -echo; stty size; read line; stty size", size=(1000, 1000)))
        assert lines(read_to(source, b"\n")) == ["1000 1000"]
        source.resize(40, 132)
        type_all(source, b"\n")
        assert lines(read_all(source)) == ["40 132"]

    def test_control_c_reaches_the_foreground_program(self, server: TmuxServer) -> None:
        source = server.open(bash("trap 'echo caught; exit 5' INT; echo ready; while :; do read line; done"))
        read_to(source, b"ready")
        type_all(source, b"\x03")
        assert b"caught" in read_all(source)
        assert source.status() == 5


class TestStarting:
    def test_the_environment_is_exact_and_may_be_big(self, server: TmuxServer, directory: Path) -> None:
        environment = {
            **ENVIRONMENT,
            "EMPTY": "",
            "LINES_OF": 'a\nb=\'"$x";',
            "BASH_FUNC_f%%": "() { :; }",
            "NOT_UTF8": "\udcff€",
            "BIG": "x" * 100_000,
            **{f"MANY_{number}": "y" * 100 for number in range(1000)},
        }
        # The program itself says what it has got; a shell would add its own.
        source = server.open(
            shell("cp", "/proc/self/environ", f"{directory}/environ", environment=environment)
        )
        assert read_all(source) == b""
        variables = (directory / "environ").read_bytes().split(b"\0")[:-1]
        found = dict(os.fsdecode(variable).split("=", 1) for variable in variables)
        tmux, pane = found.pop("TMUX"), found.pop("TMUX_PANE")
        assert found == environment
        assert tmux.startswith(f"{directory}/socket,")
        assert pane.startswith("%")

    def test_the_environment_is_nowhere_to_be_read(self, server: TmuxServer, directory: Path) -> None:
        secret = "do-not-" + "tell"
        source = server.open(
            shell("bash", "-c", "echo up; read line", environment={**ENVIRONMENT, "SECRET": secret})
        )
        read_to(source, b"up")
        told = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                told.append((process / "cmdline").read_bytes())
            except OSError:
                continue
        assert any(b"echo up" in command for command in told)
        assert not any(secret.encode() in command for command in told)
        assert os.listdir(directory) == ["socket"]

    def test_it_starts_in_its_directory(self, server: TmuxServer, directory: Path) -> None:
        strange = directory / "with space; 'and' #{more}"
        strange.mkdir()
        assert lines(read_all(server.open(shell("pwd", cwd=str(strange))))) == [str(strange)]

    def test_a_directory_that_cannot_be_entered_becomes_the_home(
        self, server: TmuxServer, directory: Path
    ) -> None:
        spec = shell("pwd", cwd="/no/such", environment={**ENVIRONMENT, "HOME": str(directory)})
        assert lines(read_all(server.open(spec))) == [str(directory)]

    def test_arguments_are_exact(self, server: TmuxServer) -> None:
        odd = ["", " ", ";", "a;", "#{pane_id}", "%", "$HOME", "'", '"', "\\", "~", "€", "-t"]
        source = server.open(shell("printf", "[%s]", *odd))
        assert read_all(source).decode() == "".join(f"[{word}]" for word in odd)

    def test_the_shell_leads_a_session_with_the_terminal(self, server: TmuxServer) -> None:
        source = server.open(bash("ps -o pid=,sid=,pgid=,tpgid= -p $$; : > /dev/tty && echo writable"))
        numbers, writable = lines(read_all(source))
        assert set(numbers.split()) == {str(source.pid)}
        assert writable == "writable"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
    def test_it_runs_as_another_user(self, server: TmuxServer) -> None:
        nobody = pwd.getpwnam("nobody")
        script = "id -u; id -g; id -G; : > $(tty) && echo writable"
        source = server.open(shell("sh", "-c", script, user=nobody))
        user, group = str(nobody.pw_uid), str(nobody.pw_gid)
        assert lines(read_all(source)) == [user, group, group, "writable"]

    def test_no_tmux_is_an_error(self, directory: Path) -> None:
        with pytest.raises(FileNotFoundError, match="no-such-tmux"):
            TmuxServer(str(directory / "socket"), "no-such-tmux").open(bash("true"))
        assert os.listdir(directory) == []

    def test_no_such_program_is_an_error(self, server: TmuxServer, directory: Path) -> None:
        with pytest.raises(FileNotFoundError, match="no-such-program"):
            server.open(shell("no-such-program"))
        assert os.listdir(directory) == ["socket"]

    def test_a_name_that_is_taken_is_refused_and_its_owner_stays(self, server: TmuxServer) -> None:
        source = server.open(bash("read line; echo still $line"))
        with pytest.raises(OSError, match="duplicate session: shell"):
            server.open(bash("echo other"))
        type_all(source, b"here\n")
        assert b"still here" in read_all(source)

    def test_an_address_that_tmux_cannot_use_is_an_error(self, directory: Path) -> None:
        with pytest.raises(OSError, match="File name too long"):
            TmuxServer(str(directory / ("x" * 120))).open(bash("true"))
        reap()

    def test_a_shell_can_start_while_tmux_is_ending(self, server: TmuxServer) -> None:
        for number in range(10):
            server.open(bash("read line", name=f"closed{number}")).hang_up()
            source = server.open(shell("true", name=f"ended{number}"))
            assert read_all(source) == b""
            assert source.status() == 0


class TestEnding:
    @pytest.mark.parametrize(
        ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)]
    )
    def test_the_status_is_the_real_one(self, server: TmuxServer, script: str, status: int) -> None:
        source = server.open(bash(f"read line; {script}"))
        assert source.read() == b""
        assert source.status() is None
        type_all(source, b"\n")
        assert read_all(source) == b"\r\n"
        assert source.status() == status
        assert source.read() is None

    def test_a_job_that_keeps_the_terminal_does_not_hide_the_end(self, server: TmuxServer) -> None:
        source = server.open(bash("trap '' HUP; sleep 1000 & echo $!; exit 4"))
        job = int(read_all(source))
        assert source.status() == 4
        os.kill(job, signal.SIGKILL)

    def test_an_end_behind_stopped_output_is_told(self, server: TmuxServer) -> None:
        program = "import os, termios; termios.tcflow(1, termios.TCOOFF); os.kill(os.getpid(), 9)"
        source = server.open(shell(sys.executable, "-I", "-c", program))
        assert read_all(source) == b""
        assert source.status() == 137

    def test_hanging_up_leaves_nothing_behind(self, server: TmuxServer) -> None:
        source = server.open(bash("sleep 1000 & echo $TMUX,$!,; wait"))
        tmux, _, job = map(int, read_to(source, b",\r\n").split(b",")[1:4])
        everything = [tmux, job, source.pid, parent(source.pid)]
        assert all(map(running, everything))
        source.hang_up()
        source.hang_up()
        assert source.read() is None
        wait_until(lambda: not any(map(running, everything)), what="everything has ended")

    def test_hanging_up_in_the_middle_of_output_leaves_nothing_behind(self, server: TmuxServer) -> None:
        source = server.open(bash("echo $TMUX; yes"))
        everything = [
            int(read_to(source, b"y\r\n").split(b",")[1]),
            source.pid,
            parent(source.pid),
        ]
        assert all(map(running, everything))
        source.hang_up()
        wait_until(lambda: not any(map(running, everything)), what="everything has ended")

    def test_hanging_up_ends_that_shell_only(self, server: TmuxServer) -> None:
        first = server.open(bash("read line; echo first $line", name="first"))
        second = server.open(bash("read line; echo second $line", name="second"))
        first.hang_up()
        wait_until(lambda: not running(first.pid), what="the first has ended")
        type_all(second, b"here\n")
        assert b"second here" in read_all(second)

    def test_a_shell_that_has_ended_leaves_nothing_behind(self, server: TmuxServer) -> None:
        source = server.open(bash("echo $TMUX; read line"))
        tmux, keeper = int(read_to(source, b"\n").split(b",")[1]), parent(source.pid)
        type_all(source, b"\n")
        read_all(source)
        wait_until(lambda: not running(tmux) and not running(keeper), what="tmux has ended")
        source.hang_up()

    def test_a_tmux_that_is_killed_is_the_end(self, server: TmuxServer) -> None:
        source = server.open(bash("echo $TMUX; read line"))
        os.kill(int(read_to(source, b"\n").split(b",")[1]), signal.SIGKILL)
        read_all(source)
        assert source.read() is None
        assert source.status() is None
        assert source.write(b"lost") == 4
        source.resize(10, 10)
        source.hang_up()
        wait_until(lambda: not running(source.pid), what="the shell was hung up")
        again = server.open(bash("echo again"))
        assert lines(read_all(again)) == ["again"]

    def test_closing_ends_everything(self, server: TmuxServer) -> None:
        sources = [server.open(bash(script, name=script)) for script in ("cat", "yes")]
        everything = [pid for source in sources for pid in (source.pid, parent(source.pid))]
        tmux = parent(everything[-1])
        server.close()
        wait_until(lambda: not any(map(running, [*everything, tmux])), what="everything has ended")
        for source in sources:
            read_all(source)
            assert source.status() is None
            source.hang_up()

    @pytest.mark.parametrize("program", ["cat", "yes"])
    def test_a_holder_that_dies_leaves_nothing_behind(self, directory: Path, program: str) -> None:
        script = (
            "import sys, signal\n"
            "from glovebox.box.terminal.holder.tmux import TmuxServer\n"
            "from glovebox.box.terminal.holder.wire import ShellSpec\n"
            "source = TmuxServer(sys.argv[1]).open(ShellSpec(name='shell', cwd='/', rows=9, columns=99,\n"
            "    arguments=[sys.argv[2]], environment={'PATH': sys.argv[3]}))\n"
            "print(source.pid, flush=True)\n"
            "signal.pause()\n"
        )
        command = [sys.executable, "-c", script, str(directory / "socket"), program, os.defpath]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            pid = int(holder.stdout.readline())
            keeper = parent(pid)
            tmux = parent(keeper)
            assert all(map(running, [pid, keeper, tmux]))
            holder.kill()
        wait_until(lambda: not any(map(running, [pid, keeper, tmux])), what="tmux has ended")


def command(server: TmuxServer, *arguments: str) -> str:
    """Have tmux do something that a person could."""
    program = ["tmux", "-S", server.socket, *arguments]
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout.strip()


class Person:
    """Somebody at a terminal of their own, attached to a shell."""

    def __init__(self, command: list[str]) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, {**os.environ, "TERM": "xterm", "LANG": "C.UTF-8"})
        self.seen = b""

    def see(self, text: bytes) -> None:
        waiting = select.poll()
        waiting.register(self._terminal, select.POLLIN)
        deadline = time.monotonic() + LIMIT
        while text not in self.seen:
            assert waiting.poll(max(0.0, deadline - time.monotonic()) * 1000), self.seen
            self.seen += os.read(self._terminal, 65_536)
        self.seen = self.seen.partition(text)[2]

    def press(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def leave(self) -> None:
        os.close(self._terminal)
        os.waitpid(self.pid, 0)


@pytest.fixture
def attach(server: TmuxServer) -> Iterator[Callable[[str], Person]]:
    people = []

    def join(name: str) -> Person:
        # Keys that come at once are keys, not something pasted.
        command(server, "set-option", "-g", "assume-paste-time", "0")
        people.append(Person(attach_command(server.socket, name)))
        return people[-1]

    yield join
    for person in people:
        person.leave()


class TestPeople:
    def test_somebody_can_watch_type_and_leave(
        self, server: TmuxServer, attach: Callable[[str], Person]
    ) -> None:
        source = server.open(bash("stty -echo; echo hello; while read x; do echo got $x; stty size; done"))
        read_to(source, b"hello\r\n")
        person = attach("shell")
        person.see(b"hello")
        type_all(source, b"one\n")
        person.see(b"got one")
        assert lines(read_to(source, b"100\r\n")) == ["got one", "30 100"]
        person.press(b"two\r")
        person.see(b"got two")
        assert lines(read_to(source, b"100\r\n")) == ["got two", "30 100"]
        person.press(b"\x02d")
        person.see(b"[detached")
        type_all(source, b"three\n")
        assert lines(read_to(source, b"100\r\n")) == ["got three", "30 100"]

    def test_typing_works_while_somebody_scrolls_back(
        self, server: TmuxServer, attach: Callable[[str], Person]
    ) -> None:
        source = server.open(bash("stty -echo; seq 100; while read line; do echo got $line; done"))
        read_to(source, b"100\r\n")
        attach("shell").see(b"100")
        command(server, "copy-mode")
        assert command(server, "display-message", "-p", "#{pane_in_mode}") == "1"
        type_all(source, b"q G word\n")
        assert lines(read_to(source, b"word\r\n")) == ["got q G word"]

    def test_output_is_exact_while_somebody_watches(
        self, server: TmuxServer, attach: Callable[[str], Person]
    ) -> None:
        source = server.open(bash("stty -echo; echo ready; read line; seq 100000"))
        read_to(source, b"ready\r\n")
        person = attach("shell")
        person.see(b"ready")
        type_all(source, b"\n")
        assert read_all(source) == b"".join(b"%d\r\n" % number for number in range(1, 100_001))
        assert source.status() == 0

    def test_what_happens_in_other_panes_is_not_ours(
        self, server: TmuxServer, attach: Callable[[str], Person]
    ) -> None:
        source = server.open(bash("stty -echo; echo ready; read line; echo $line"))
        read_to(source, b"ready\r\n")
        person = attach("shell")
        person.see(b"ready")
        command(server, "split-window", "sh", "-c", "echo other; read line")
        person.see(b"other")
        type_all(source, b"mine\n")
        assert read_all(source) == b"mine\r\n"

    def test_a_shell_that_somebody_closes_is_the_end(self, server: TmuxServer) -> None:
        source = server.open(bash("read line"))
        command(server, "kill-session")
        assert read_all(source) == b""
        assert source.status() is None
        wait_until(lambda: not running(source.pid), what="the shell has ended")

    def test_hanging_up_reaches_a_shell_from_which_we_were_detached(
        self, server: TmuxServer, attach: Callable[[str], Person]
    ) -> None:
        source = server.open(bash("echo hello; read line"))
        person = attach("shell")
        person.see(b"hello")
        clients = command(server, "list-clients", "-F", "#{client_control_mode} #{client_name}")
        (ours,) = (line.split()[1] for line in clients.splitlines() if line.startswith("1"))
        command(server, "detach-client", "-t", ours)
        read_all(source)
        assert source.status() is None
        assert running(source.pid)
        source.hang_up()
        person.see(b"[exited]")
        wait_until(lambda: not running(source.pid), what="the shell has ended")


class TestParsing:
    SAID = (
        b"%begin 1 1 0\n%end 1 1 0\n%begin 1 2 0\n%7 1234\n%end 1 2 0\n%window-add @0\n"
        b"%output %7 a\\015\\012\\134\xff\n%output %70 other\n%begin 1 3 1\n%output %7 reply\n%error 1 3 1\n"
        b"%extended-output %7 12 : b : c\\000\n%extended-output %8 0 : other\n%exit\n"
    )

    def test_words_of_tmux_may_come_in_any_pieces(self) -> None:
        for size in range(1, len(self.SAID)):
            tmux = ControlMode()
            pieces = [self.SAID[start : start + size] for start in range(0, len(self.SAID), size)]
            assert b"".join(map(tmux.feed, pieces)) == b"a\r\n\\\xffb : c\0"
            assert (tmux.pane, tmux.server) == (b"%7", b"1234")

    def test_marks_may_come_in_any_pieces(self) -> None:
        printed = b"a\x18\033]1808;42;P1\ab\x18\x18\033]1808;43;S1\ac\x18\033]1808;42;S0\ad\x18"
        for size in range(1, len(printed)):
            marks = Marks(b"42")
            pieces = [marks.split(printed[at : at + size]) for at in range(0, len(printed), size)]
            pieces.append(marks.split(b"e"))
            assert b"".join(text for text, _ in pieces) == b"ab\x18\x18\033]1808;43;S1\acd\x18e"
            assert [mark for _, said in pieces for mark in said] == [b"P1", b"S0"]
