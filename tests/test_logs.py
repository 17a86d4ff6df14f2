from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from glovebox import logs


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
    assert line.endswith("INFO    some.where: it is so\n")
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
