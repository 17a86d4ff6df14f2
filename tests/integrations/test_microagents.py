from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox.integrations.openhands.microagents import (
    Microagent,
    get_microagents_from_selected_repo,
    load_organisation,
    organisation_url,
    parse,
)
from tests.client.asked import connected
from tests.support.running import RunningBox, running_box

KNOWLEDGE = "---\nname: anything\ntriggers:\n- Docker\n- 42\n---\n\nUse docker.\n"
TASK = "---\nname: fix\ninputs:\n  - name: ISSUE\n    description: Which one\n---\nFix ${ISSUE}.\n"
BOMB = "---\na: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join(['*' + before] * 9)}]\n"
    for before, after in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.fixture
def own_box(tmp_path: Path) -> Iterator[RunningBox]:
    """A box with a workspace of its own."""
    with running_box(tmp_path / "home" / "workspace") as box:
        yield box


def put(root: Path) -> None:
    microagents = root / ".openhands" / "microagents"
    (microagents / "knowledge").mkdir(parents=True)
    (microagents / "repo.md").write_text("Always know this.\n")
    (microagents / "README.md").write_text("About microagents.\n")
    (microagents / "notes.txt").write_text("Not this.\n")
    (microagents / "knowledge" / "knowledge.md").write_text(KNOWLEDGE)
    (microagents / "task.md").write_text(TASK)
    (microagents / "broken.md").write_text("---\ntriggers: [\n---\nLost.\n")
    (microagents / "binary.md").write_bytes(b"\xff\xfe")
    (root / ".openhands_instructions").write_text("Be kind.\n")


async def test_a_workspace_and_a_repository_in_it(
    own_box: RunningBox, caplog: pytest.LogCaptureFixture
) -> None:
    put(own_box.workspace)
    put(own_box.workspace / "project")
    async with connected(own_box) as runtime:
        found = await get_microagents_from_selected_repo(runtime)
        below = await get_microagents_from_selected_repo(runtime, "owner/project")
        assert await get_microagents_from_selected_repo(runtime, "owner/none") == []
    summary = [(one.name, one.type, one.content.strip()) for one in found]
    assert summary == [
        ("repo_legacy", "repo", "Be kind."),
        ("knowledge/knowledge", "knowledge", "Use docker."),
        ("repo", "repo", "Always know this."),
        ("task", "task", "Fix ${ISSUE}."),
    ]
    assert [one.name for one in below] == [one.name for one in found]
    assert found[2].source == f"{own_box.workspace}/.openhands/microagents/repo.md"
    assert below[2].source == f"{own_box.workspace}/project/.openhands/microagents/repo.md"
    for name in ("broken", "binary"):
        assert (
            f"The microagent {own_box.workspace}/.openhands/microagents/{name}.md is left out" in caplog.text
        )


async def test_an_organisation_has_some_for_all(own_box: RunningBox, tmp_path: Path) -> None:
    config = tmp_path / "config"
    (config / "microagents").mkdir(parents=True)
    (config / "microagents" / "shared.md").write_text("For all.\n")
    commands = "git init -q && git add . && git -c user.name=t -c user.email=t@example.org commit -q -m x"
    subprocess.run(commands, shell=True, cwd=config, check=True)  # noqa: ASYNC221
    async with connected(own_box) as runtime:
        (shared,) = await load_organisation(runtime, f"file://{config}", "acme")
        assert (shared.name, shared.type, shared.content) == ("shared", "repo", "For all.")
        assert await load_organisation(runtime, "http://token@127.0.0.1:9/acme/.openhands.git", "acme") == []
    assert own_box.run("ls -A").strip() == ""


def test_addresses_of_organisations() -> None:
    assert organisation_url("github", "acme/x") == "https://github.com/acme/.openhands.git"
    assert organisation_url("gitlab", "acme/x").endswith("/acme/openhands-config.git")
    assert organisation_url("azure_devops", "acme/p/x").endswith(
        "/acme/openhands-config/_git/openhands-config"
    )


def parsed(text: str) -> Microagent:
    return parse(text, "some/name", "/x")


def test_words_bring_knowledge_up() -> None:
    knowledge = parsed(KNOWLEDGE)
    assert knowledge.triggers == ("Docker", "42")
    assert knowledge.match_trigger("how does docker work?") == "Docker"
    assert knowledge.match_trigger("how?") is None


def test_a_task_is_begun_by_its_name() -> None:
    task = parsed(TASK)
    assert task.triggers == ("/fix",)
    assert [(one.name, one.description) for one in task.inputs] == [("ISSUE", "Which one")]
    assert parsed("---\ninputs: [{name: A}]\n---\n").triggers == ("/name",)
    assert parsed("---\nname: a\ntriggers: [/a, go]\ninputs: [{name: A}]\n---\n").triggers == ("/a", "go")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", ""),
        ("plain\n---\ntext\n", "plain\n---\ntext"),
        ("---\n---\ntext", "text"),
        ("\ufeff---\r\nname: x\r\n---\r\ntext\r\n", "text"),
        ("---\nnever closed", "---\nnever closed"),
        ("---\nname: x\n---\n\n---\nrule\n", "---\nrule"),
    ],
)
def test_a_head_is_optional(text: str, content: str) -> None:
    found = parsed(text)
    assert (found.type, found.content) == ("repo", content)


@pytest.mark.parametrize(
    "head",
    [
        "triggers: word",
        "triggers: [[a]]",
        "inputs: {a: b}",
        "inputs: [a]",
        "inputs: [{description: x}]",
        "- a\n- b",
        "a: b: c",
        "!!python/object/apply:os.getcwd []",
    ],
)
def test_a_head_that_cannot_be_used_is_told(head: str) -> None:
    with pytest.raises(ValueError, match=r"must be|needs|is not"):
        parsed(f"---\n{head}\n---\ntext")


@pytest.mark.parametrize("use", ["triggers: *j", "inputs: *j", "name: *a"])
def test_a_head_that_stands_for_too_much_does_no_harm(use: str) -> None:
    try:
        found = parsed(f"{BOMB}{use}\n---\ntext")
    except ValueError:
        return
    assert found.content == "text"
