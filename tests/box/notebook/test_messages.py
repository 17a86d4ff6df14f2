"""Jupyter messages become outputs, and outputs the text of an observation."""

from __future__ import annotations

from typing import Any

import pytest

from glovebox.box.notebook.messages import Incoming, ObservedOutput, content_of, is_rich, output_of, size_of
from glovebox.protocol.notebook import CellOutput


def output(kind: str, **content: Any) -> CellOutput:
    found = output_of(Incoming(kind, "parent", content), late=False)
    assert found is not None
    return found


def text_of(*outputs: CellOutput) -> str:
    gathered = ObservedOutput()
    for one in outputs:
        gathered.add(one)
    return gathered.text()


def stream(text: str) -> CellOutput:
    return output("stream", name="stdout", text=text)


def test_streams_results_and_displays_are_joined_without_anything_between() -> None:
    result = output("execute_result", data={"text/plain": "'r'"}, metadata={})
    shown = output("display_data", data={"text/plain": "shown", "text/html": "<b>"}, metadata={})
    assert text_of(stream("a\n"), result, shown, stream("b")) == "a\n'r'shownb"


def test_updates_and_clearing_are_no_text() -> None:
    update = output("update_display_data", data={"text/plain": "new"}, transient={"display_id": "d"})
    assert text_of(update, output("clear_output", wait=True)) == ""
    assert update.display_id == "d"


def test_nothing_counts_after_a_traceback() -> None:
    error = output("error", ename="E", evalue="v", traceback=["one", "two"])
    assert text_of(stream("before\n"), error, stream("after")) == "before\none\ntwo"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[1;32mbold\x1b[0m", "bold"),
        ("\x1b[38;5;9mx", "x"),
        ("\x1b[m", "\x1b[m"),
        ("\x1b[38;2;1;2mx", "\x1b[38;2;1;2mx"),
        ("\x1b[2K\x1b[1A", "\x1b[2K\x1b[1A"),
        ("plain", "plain"),
    ],
)
def test_colours_of_up_to_three_numbers_are_removed_and_nothing_else(text: str, plain: str) -> None:
    assert text_of(stream(text)) == plain


def test_a_colour_that_comes_in_two_pieces_is_removed() -> None:
    assert text_of(stream("a\x1b[3"), stream("1mb")) == "ab"


def test_png_images_are_gathered_as_urls() -> None:
    gathered = ObservedOutput()
    gathered.add(output("display_data", data={"image/png": "QUJD", "text/plain": "<Figure>"}))
    gathered.add(output("execute_result", data={"image/png": "REVG"}))
    gathered.add(output("display_data", data={"image/jpeg": "xxxx"}))
    assert gathered.images == ["data:image/png;base64,QUJD", "data:image/png;base64,REVG"]


def test_only_what_is_more_than_text_is_rich() -> None:
    assert not is_rich(stream("a"))
    assert not is_rich(output("execute_result", data={"text/plain": "1"}))
    assert is_rich(output("execute_result", data={"text/plain": "1", "text/html": "<b>1"}))
    assert is_rich(output("clear_output", wait=False))


@pytest.mark.parametrize("kind", ["status", "execute_input", "comm_open", "iopub_welcome", "unheard_of"])
def test_other_messages_give_out_nothing(kind: str) -> None:
    assert output_of(Incoming(kind, "parent", {}), late=False) is None


@pytest.mark.parametrize("kind", ["stream", "display_data", "execute_result", "error", "clear_output"])
def test_messages_without_their_fields_do_no_harm(kind: str) -> None:
    found = output(kind, data=None, metadata=5, transient=[], traceback=None, text=7)
    assert size_of(found) > 0


def test_text_in_lines_is_joined() -> None:
    assert output("display_data", data={"text/plain": ["a\n", "b"]}).text == "a\nb"


def test_the_content_ends_with_two_lines() -> None:
    assert content_of("a  \n\n", [], "/d", "/py", extra=True) == (
        "a\n[Jupyter current working directory: /d]\n[Jupyter Python interpreter: /py]"
    )
    assert content_of("a\n", [], "/d", None, extra=True) == "a\n[Jupyter current working directory: /d]"
    assert content_of("  a \n", [], "/d", "/py", extra=False) == "  a"


def test_what_is_said_of_the_kernel_stands_before_the_two_lines() -> None:
    assert content_of("a\n", ["[note]"], "/d", None, extra=True) == (
        "a\n[note]\n[Jupyter current working directory: /d]"
    )
    assert content_of("", ["[note]"], "/d", None, extra=False) == "[note]"
