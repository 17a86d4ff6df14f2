from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator

import pytest

from glovebox import logs, tracing


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before[0], before[1]


def test_a_plain_line_has_level_name_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="info", as_json=False)
    logging.getLogger("some.where").info("it is %s", "so")
    logging.getLogger("some.where").debug("not this")
    line = capsys.readouterr().err
    assert line.endswith("INFO    - some.where: it is so\n")
    assert line.count("\n") == 1


def test_a_json_line_is_one_object_also_with_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="INFO", as_json=True)
    try:
        raise LookupError("two\nlines")
    except LookupError:
        logging.getLogger("a").exception("failed")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["logger"], line["message"]) == ("ERROR", "a", "failed")
    assert "LookupError: two" in line["traceback"]
    assert "request_id" not in line


async def test_a_plain_line_shows_the_request_it_was_written_for(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="INFO", as_json=False)

    async def handle(request_id: str) -> None:
        tracing.request_id.set(request_id)
        await asyncio.sleep(0)
        await asyncio.create_task(work())

    async def work() -> None:
        logging.getLogger("a").info("works")

    await asyncio.gather(*(asyncio.create_task(handle(f"r{number}")) for number in range(3)))
    logging.getLogger("a").info("rests")
    fields = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert fields == [f"INFO    {name} a: works" for name in ("r0", "r1", "r2")] + ["INFO    - a: rests"]


async def test_a_json_line_names_the_request_it_was_written_for(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="INFO", as_json=True)
    tracing.request_id.set("r1")
    logging.getLogger("a").info("works")
    assert json.loads(capsys.readouterr().err)["request_id"] == "r1"


@pytest.mark.parametrize("as_json", [False, True])
def test_a_secret_is_masked_wherever_it_stands(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="INFO", as_json=as_json, secrets=["s3cret", ""])
    logging.getLogger("a").info("key %s", "s3cret")
    try:
        raise ValueError("about s3cret")
    except ValueError:
        logging.getLogger("a").exception("failed")
    text = capsys.readouterr().err
    assert "s3cret" not in text
    assert text.count("***") >= 2


def test_a_secret_that_is_part_of_another_leaves_nothing_of_it() -> None:
    assert logs.Mask(["a-key-1", "a-key-1-of-many"])("a-key-1-of-many, a-key-1") == "***, ***"
    assert (
        logs.Mask(["a", "key"])("a key as short as that hides no word")
        == "a key as short as that hides no word"
    )
