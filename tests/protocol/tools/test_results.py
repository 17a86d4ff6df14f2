from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glovebox.protocol.base import Observation
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    CmdOutputMetadata,
    CmdOutputObservation,
    ErrorObservation,
    FileDownloadObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    MCPObservation,
)
from glovebox.protocol.terminal import CommandInfo, CommandObservation
from glovebox.protocol.tools.base import ImagePart, TextPart, ToolResult
from glovebox.protocol.tools.results import failed, result

PNG = "data:image/png;base64,iVBORw0KGgo="
PICTURE = ImagePart(media_type="image/png", data="iVBORw0KGgo=")


def test_a_command_is_shown_as_agents_see_it_and_a_failing_one_is_no_error() -> None:
    observation = CmdOutputObservation(
        content="out",
        command="ls",
        metadata=CmdOutputMetadata(
            exit_code=2, working_dir="/w", py_interpreter_path="/p", prefix="[before]\n", suffix="\n[after]"
        ),
    )
    shown = result(observation)
    assert shown.text == "[before]\nout\n[after]"
    assert not shown.is_error
    assert shown.observation is observation


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"state": "ended", "exit_code": 2, "cwd": "/w"},
            "The command ended with exit code 2. Current directory: /w",
        ),
        ({"state": "ended", "exit_code": -1}, "The command ended with exit code -1."),
        ({"state": "running"}, 'The command still runs. Call again with command "" to wait'),
        ({"state": "waiting_for_input", "prompt": "Name?"}, "The command waits for input: Name?; call again"),
        (
            {"state": "waiting_for_input", "prompt": "Word:", "echo_off": True},
            "The command waits for a password: Word:; call again with is_input true",
        ),
        ({"state": "pager", "program": "less"}, "The command shows a pager (less): call again with keys"),
        ({"state": "editor", "program": "vi"}, "The command shows an editor (vi)"),
        ({"state": "stopped"}, "The command is stopped"),
    ],
)
def test_what_a_command_does_is_said_in_words(fields: dict[str, Any], words: str) -> None:
    info = CommandInfo(id="1", session="main", command="ls", by="agent", started=0.0, **fields)
    shown = result(CommandObservation(content="out\n", command=info, notes=["a note"]))
    assert shown.text.startswith(f"out\n[a note]\n[{words}")
    assert not shown.is_error


def test_a_cell_is_shown_with_its_pictures() -> None:
    urls = [PNG, "http://a/b.png", "data:image/svg+xml;base64,PHN2Zy8+"]
    shown = result(IPythonRunCellObservation(content="text", code="x", image_urls=urls))
    assert shown.parts == [
        TextPart(text="text"),
        PICTURE,
        TextPart(text="[Picture: http://a/b.png]"),
        TextPart(text="[image/svg+xml, 6 bytes, not shown.]"),
    ]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("a\nb\n", TextPart(text="a\nb\n")),
        ("", TextPart(text="[/f is empty.]")),
        (PNG, PICTURE),
        (f"{PNG}\n", TextPart(text=f"{PNG}\n")),
        ("data:image/png;base64,abc", TextPart(text="[image/png, 0 bytes, not shown.]")),
        ("data:application/pdf;base64,JVBERi0x", TextPart(text="[application/pdf, 6 bytes, not shown.]")),
        ("ERROR:\nis what the file says", TextPart(text="ERROR:\nis what the file says")),
    ],
)
def test_a_file_is_shown_as_text_or_picture(content: str, part: TextPart | ImagePart) -> None:
    shown = result(FileReadObservation(content=content, path="/f"))
    assert shown.parts == [part]
    assert not shown.is_error


def test_a_very_long_file_is_cut_and_says_how_to_read_on() -> None:
    shown = result(FileReadObservation(content="x" * 250_000, path="/f"))
    assert shown.text.startswith("x" * 100_000 + "\n[These are the first 100,000 of 250,000 characters.")
    assert len(shown.text) < 100_200


@pytest.mark.parametrize(
    ("observation", "is_error"),
    [
        (FileEditObservation(content="ERROR:\nno", path="/f"), True),
        (FileEditObservation(content="The file was edited", path="/f"), False),
        (FileReadObservation(content="ERROR:\nno", path="/f", impl_source="oh_aci"), True),
        (ErrorObservation(content="no"), True),
        (BrowserOutputObservation(content="no", url="", trigger_by_action="browse", error=True), True),
        (FileDownloadObservation(content="came", file_path="/f"), False),
    ],
)
def test_what_went_wrong_is_an_error(observation: Observation, is_error: bool) -> None:
    shown = result(observation)
    assert shown.is_error is is_error
    assert shown.text == observation.content


def test_no_result_is_empty() -> None:
    assert result(FileWriteObservation(path="/f")).text == "I wrote to the file /f."
    assert result(ErrorObservation()).text
    assert failed("").text
    assert result(MCPObservation(content='{"content": []}')).text


def test_a_binary_file_is_explained() -> None:
    assert result(ErrorObservation(content="ERROR_BINARY_FILE")).text.startswith(
        "ERROR_BINARY_FILE\nThe file"
    )


def test_a_page_is_shown_with_its_picture() -> None:
    page = BrowserOutputObservation(
        content="text", url="http://a", trigger_by_action="browse", screenshot=PNG
    )
    assert result(page).parts == [TextPart(text="text"), PICTURE]


def mcp(**answer: Any) -> ToolResult:
    return result(MCPObservation(content=json.dumps(answer), name="t"))


def test_the_parts_of_an_mcp_answer_are_kept_in_order() -> None:
    shown = mcp(
        meta=None,
        content=[
            {"type": "text", "text": "one", "annotations": None},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA", "mimeType": "x/y"}},
            {"type": "resource_link", "uri": "file:///c", "name": "c", "description": "three"},
            {"type": "new", "value": 1},
        ],
        structuredContent={"a": 1},
        isError=False,
    )
    assert shown.parts == [
        TextPart(text="one"),
        PICTURE,
        TextPart(text="[audio/wav, 3 bytes, not shown.]"),
        TextPart(text="two"),
        TextPart(text="file:///b [x/y, 3 bytes, not shown.]"),
        TextPart(text="file:///c: c: three"),
        TextPart(text='{"type":"new","value":1}'),
    ]
    assert shown.structured == {"a": 1}
    assert not shown.is_error


def test_a_failure_of_an_mcp_server_is_an_error_with_its_words() -> None:
    shown = mcp(isError=True, error='Tool "t" timed out after 3 seconds', content=[])
    assert shown.is_error
    assert shown.text == 'Tool "t" timed out after 3 seconds'


def test_structured_content_alone_is_shown_as_json() -> None:
    assert mcp(content=[], structuredContent={"a": [1]}).text == '{"a":[1]}'


def test_an_mcp_answer_that_is_no_json_is_shown_as_it_is() -> None:
    assert result(MCPObservation(content="{oops")).text == "{oops"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "text", "content", "resource", "data", "uri", "isError"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=10,
    )
)
def test_any_mcp_answer_is_a_result(answer: Any) -> None:
    assert result(MCPObservation(content=json.dumps(answer))).parts
