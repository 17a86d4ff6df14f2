from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from glovebox.cli.commands.run import argv_of
from glovebox.cli.main import COMMANDS, build_parser, main
from glovebox.cli.options import spec_of
from glovebox.client.spec import BoxSpec, Mount
from glovebox.settings import host

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
#: The flags of these are settings, which have a page of their own.
ELSEWHERE = {"serve", "mcp"}


def parsers() -> dict[str, argparse.ArgumentParser]:
    found = next(
        action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return dict(found.choices)


def flags(parser: argparse.ArgumentParser) -> set[str]:
    return {name for action in parser._actions for name in action.option_strings} - {"-h", "--help"}


def sections() -> dict[str, str]:
    text = PAGE.read_text(encoding="utf-8")
    return dict(re.findall(r"^## `glovebox (\w+)`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))


def test_every_command_has_its_section_and_every_section_its_command() -> None:
    assert list(parsers()) == list(COMMANDS)
    assert list(sections()) == list(COMMANDS)


def test_every_flag_is_documented_and_every_documented_flag_is_there() -> None:
    commands, told = parsers(), sections()
    assert flags(commands["shell"]) < flags(commands["run"]), "shell is documented by what run has"
    for name in commands.keys() - ELSEWHERE - {"shell"}:
        documented = set(re.findall(r"^\| `(-[\w-]+)", told[name], re.MULTILINE))
        documented |= set(re.findall(r"^\| `-\w`, `(--[\w-]+)", told[name], re.MULTILINE))
        assert documented == flags(commands[name]), name


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("serve", "mcp", "bundle")])
def test_every_command_explains_itself_with_examples(name: str) -> None:
    parser = parsers()[name]
    assert parser.description
    assert parser.epilog
    assert parser.epilog.startswith("examples:")
    for action in parser._actions:
        assert action.help, action


def test_no_flag_offers_an_empty_word() -> None:
    offered = [action.choices for parser in parsers().values() for action in parser._actions]
    assert not [choices for choices in offered if choices and "" in choices]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "mcp"])
def test_the_help_of_every_command_fits_a_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = parsers()[name].format_help().splitlines()
    assert [line for line in lines if len(line) > 80] == []


def test_flags_say_what_a_box_is_like(tmp_path: Path) -> None:
    words = (
        "run --image i --build {0} --name n --workspace {0} --volume /a:/b:ro --volume cache:/c --env A=1=2 "
        "--memory 1.5G --cpus 1.5 --pids 99 --network w --runtime r --isolation bubblewrap --port 80 "
        "--port 8080:9090 --plugin jupyter --plugin agent_skills --user u --browser --keep -- true"
    )
    arguments = build_parser("run").parse_args(words.format(tmp_path).split())
    assert arguments.words == ["--", "true"]
    assert spec_of(arguments, host.load({"SANDBOX_ENV_B": "2"})) == BoxSpec(
        name="n", image="i", build=str(tmp_path), workspace=str(tmp_path),
        volumes=(Mount(source="/a", target="/b", mode="ro"), Mount(source="cache", target="/c")),
        env={"A": "1=2", "B": "2"}, plugins=("jupyter", "agent_skills"), browser=True, user="u",
        memory=3 << 29, cpus=1.5, pids=99, network="w", runtime="r", isolation="bubblewrap",
        ports={80: 0, 8080: 9090}, keep=True,
    )  # fmt: skip


def test_a_path_of_a_volume_is_relative_to_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = build_parser("run").parse_args(["run", "--volume", "./data:/data", "--", "true"])
    assert spec_of(arguments, host.load({})).volumes == (Mount(source=f"{tmp_path}/data", target="/data"),)


@pytest.mark.parametrize(
    "flags",
    ["--memory lots", "--memory 1k", "--cpus 0", "--cpus many", "--pids -1", "--pids 0", "--port 0",
     "--port x", "--port 80:99999", "--env =x", "--env a-b=c", "--workspace /no/such/directory",
     "--isolation paper", "--timeout 0", "--timeout soon", "--keep --rm", "--volume nonsense", "--name -",
     "--box a --keep", "--box a --memory 1G", "--box a --env A=b"],
)  # fmt: skip
def test_a_flag_that_cannot_be_is_refused_before_anything_starts(
    flags: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["run", *flags.split(), "--", "true"])
    except SystemExit as refused:
        status = int(str(refused.code))
    assert status == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "glovebox" in said.err
    assert flags.split()[0] in said.err or flags.split()[1] in said.err


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (["ls", "-l", "a b"], ["ls", "-l", "a b"]),
        (["make && make check"], ["bash", "-c", "make && make check"]),
        (["a;b"], ["a;b"]),
        (["line one\nline two"], ["bash", "-c", "line one\nline two"]),
    ],
)
def test_one_word_with_blanks_is_for_the_shell(words: list[str], argv: list[str]) -> None:
    assert argv_of(words) == argv


def test_a_command_line_is_read_without_heavy_libraries() -> None:
    script = (
        "import sys; from glovebox.cli.main import build_parser\n"
        "for name in 'run exec shell ls open top cp logs doctor completion'.split(): build_parser(name)\n"
        "heavy = {'asyncio', 'msgspec', 'aiohttp', 'glovebox.client', 'glovebox.settings'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
