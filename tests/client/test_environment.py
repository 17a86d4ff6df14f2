from __future__ import annotations

from collections.abc import Iterator

import pytest

from glovebox.client.shell import add_env_vars
from glovebox.errors import ClientError
from glovebox.integrations.openhands.repository import set_git_identity, setup_initial_env
from tests.client.asked import connected
from tests.support.running import RunningBox, running_box

#: As a value looks to a program, one character per byte, so that nothing is lost on a terminal.
SHOWN = "printenv {} | head -c -1 | od -An -v -tx1 | tr -d ' \\n'"


@pytest.fixture(scope="module")
def own_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """A box with a home of its own."""
    with running_box(tmp_path_factory.mktemp("env") / "workspace", "--plugins", "jupyter") as box:
        yield box


def shown(box: RunningBox, name: str, session: str = "main") -> str:
    return bytes.fromhex(box.run(SHOWN.format(name), session=session, hidden=True)).decode()


def bashrc(box: RunningBox) -> str:
    return (box.workspace.parent / ".bashrc").read_text()


VALUES = {
    "plain": "hello",
    "spaces": "  two words ",
    "dollar": "$HOME and $(id) and `id`",
    "quotes": "\"double\" and 'single'",
    "backslashes": "C:\\new\\table \\",
    "bang": "hello!world !!",
    "lines": "first\nsecond\r\n\tthird",
    "control": "\x03\x1b[31m\x7f",
    "unicode": "grüße €😀",
    "nothing": "",
    "shell": "; echo pwned >&2; # *",
    "long": "x" * 100_000,
}


async def test_a_value_arrives_exactly_in_this_shell_and_in_shells_to_come(own_box: RunningBox) -> None:
    values = {f"exact_{name}": value for name, value in VALUES.items()}
    async with connected(own_box) as runtime:
        await add_env_vars(runtime, values, jupyter=False)
    for name, value in values.items():
        assert shown(own_box, name.upper()) == value
        assert shown(own_box, name.upper(), session="later") == value


async def test_a_value_arrives_exactly_in_the_kernel(own_box: RunningBox) -> None:
    values = {f"kernel_{name}": value for name, value in VALUES.items()}
    async with connected(own_box) as runtime:
        await add_env_vars(runtime, values, jupyter=True)
        for name, value in values.items():
            cell = await runtime.run_ipython(f"import os; print(os.environ[{name.upper()!r}].encode().hex())")
            assert cell.content.split("\n")[0] == value.encode().hex()


async def test_plain_values_look_as_they_always_did(own_box: RunningBox) -> None:
    async with connected(own_box) as runtime:
        await add_env_vars(runtime, {"seen_a": "bar", "SEEN_B": "x y"}, jupyter=False)
    assert "export SEEN_A=bar\n" in bashrc(own_box)
    assert 'export SEEN_B="x y"\n' in bashrc(own_box)


async def test_an_export_of_bashrc_is_not_replaced(own_box: RunningBox) -> None:
    async with connected(own_box) as runtime:
        await add_env_vars(runtime, {"KEPT": "first"}, jupyter=False)
        await add_env_vars(runtime, {"KEPT": "second"}, jupyter=False)
    assert shown(own_box, "KEPT") == "second"
    assert bashrc(own_box).count("export KEPT=") == 1
    assert "export KEPT=first\n" in bashrc(own_box)


@pytest.mark.parametrize("name", ["", "1st", "a-b", "a b", "X;id", "naïve", "A=B"])
async def test_what_cannot_name_a_variable_is_refused_before_anything_is_set(
    own_box: RunningBox, name: str
) -> None:
    async with connected(own_box) as runtime:
        with pytest.raises(ClientError, match="cannot name a variable"):
            await add_env_vars(runtime, {"NEVER_SET": "1", name: "2"}, jupyter=False)
    assert "NEVER_SET" not in own_box.run("env")


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
async def test_a_value_that_no_variable_can_have_is_refused(own_box: RunningBox, value: str) -> None:
    async with connected(own_box) as runtime:
        with pytest.raises(ClientError, match="cannot be given to a shell"):
            await add_env_vars(runtime, {"IMPOSSIBLE": value}, jupyter=False)


async def test_a_failure_names_the_variables_and_not_their_values(own_box: RunningBox) -> None:
    own_box.run("readonly FIXED=1")
    async with connected(own_box) as runtime:
        with pytest.raises(ClientError) as raised:
            await add_env_vars(runtime, {"token": "s3cr3t-value", "fixed": "s3cr3t-value"}, jupyter=False)
    text = str(raised.value)
    assert text.startswith("Failed to add env vars [TOKEN, FIXED] to environment: ")
    assert "readonly" in text
    assert "s3cr3t-value" not in text


async def test_a_new_box_gets_variables_of_both_kinds_and_a_git_identity(own_box: RunningBox) -> None:
    async with connected(own_box) as runtime:
        await setup_initial_env(runtime, {"one": "1"}, {"two": "2"})
        assert own_box.run("echo $ONE$TWO").strip() == "12"
        identity = "git config --global user.name; git config --global user.email"
        assert own_box.run(identity).split() == ["openhands", "openhands@all-hands.dev"]
        await set_git_identity(runtime, 'Ada "$USER"', "ada@example.org")
    assert own_box.run("git config --global user.name").strip() == 'Ada "$USER"'


async def test_no_git_is_no_failure(own_box: RunningBox) -> None:
    own_box.run("OLD_PATH=$PATH; PATH=/nowhere")
    try:
        async with connected(own_box) as runtime:
            await set_git_identity(runtime)
    finally:
        own_box.run("PATH=$OLD_PATH")
