"""Clients that fail, hang or lie are found out, and do not disturb the others.

Run as a program, this is such a client.
"""

from __future__ import annotations

import os
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.boxes.client import Client, Library
from benchmarks.boxes.copies import measure_copies
from benchmarks.boxes.peer import PROCESS, Begun, Means, Stopwatch, serve
from benchmarks.boxes.tally import Tally
from benchmarks.competitors import Reference
from benchmarks.load import LoadError

from benchmarks import plan as plans

MODULE = "tests.benchmarks.test_boxes_clients"
PLAN = plans.quick(frozenset(["boxes"])).boxes
HONEST = "honest"


class Peer:
    """Does what the kind of box says."""

    def __init__(self, means: Means) -> None:
        self._folder = means.folder

    def begin(self, kind: str) -> Begun:
        if kind == "dies":
            print("its last words", flush=True)
            os._exit(1)
        watch = Stopwatch()
        return watch.answer("second" if kind == "lies" else "first\n", "first", workspace=str(self._folder))

    def crowd(self, kind: str, number: int) -> float:
        time.sleep(60)
        return 0.0

    def commands(self, number: int, way: str) -> list[float]:
        return [float(number)]

    def output(self, command: str) -> str:
        return "1 0123456789abcdef" if "sha256sum" in command else ""

    def copy_in(self, source: str, directory: str, is_tree: bool) -> float:
        return 1.0

    def copy_out(self, directory: str) -> tuple[float, str]:
        archive = self._folder / "archive.zip"
        with zipfile.ZipFile(archive, "w"):
            pass
        return 1.0, str(archive)

    def end(self) -> None:
        """There is nothing to end."""


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client(Library(Reference.name, Path(sys.executable), MODULE), None)
    try:
        client.wait_ready()
        yield client
    finally:
        client.close()


def nothing(text: str) -> None:
    """Say it to nobody."""


def test_a_right_answer_is_timed(client: Client) -> None:
    begun = client.begin(HONEST)
    assert begun.seconds >= 0
    assert begun.workspace == str(client.folder)


def test_a_wrong_answer_to_a_first_command_is_no_start(client: Client) -> None:
    with pytest.raises(LoadError, match="wrong answer to a first command: 'second'"):
        client.begin("lies")
    assert client.commands(3, "sync") == [3.0]  # it can still be asked


def test_a_client_that_dies_leaves_its_last_words(client: Client) -> None:
    with pytest.raises(LoadError, match="its last words"):
        client.begin("dies")
    client.end()  # which is no failure of another measure


def test_a_client_that_hangs_is_ended_and_its_late_answer_is_not_taken_for_another(client: Client) -> None:
    with pytest.raises(LoadError, match="no answer within 0 s"):
        client.crowd(HONEST, 2, 0.2)
    with pytest.raises(LoadError, match="no answer within 0 s to what it was asked before"):
        client.begin(HONEST)


def test_a_copy_that_is_not_what_was_sent_is_no_copy(client: Client) -> None:
    tally = Tally(nothing)
    found = measure_copies([client], {client.name: client.begin(HONEST)}, PLAN, tally)
    assert {row.cells[client.name].values for row in found.rows if "out of" in row.measure} == {()}
    assert "the box has something else: 1 0123456789abcdef" in tally.reason(client.name, "copies")


def test_only_the_simplest_box_of_this_project_must_not_fall_out() -> None:
    tally = Tally(nothing)
    with tally.excusing(Reference.name, PROCESS):
        raise LoadError("gone")
    assert tally.median(Reference.name, PROCESS, ()).reason == "gone"
    with pytest.raises(LoadError, match="gone"), tally.excusing("glovebox", PROCESS):
        raise LoadError("gone")


if __name__ == "__main__":
    serve(Peer, int(sys.argv[1]))
