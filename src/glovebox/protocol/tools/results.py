"""Observations as results: what a model is shown of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from glovebox.json_codec import decode_json
from glovebox.protocol.base import Observation
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    IPythonRunCellObservation,
    MCPObservation,
)
from glovebox.protocol.terminal import CommandObservation
from glovebox.protocol.tools.base import ImagePart, Part, TextPart, ToolResult
from glovebox.protocol.tools.catalogue import READ_LIMIT

#: Pictures that models can look at.
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_DATA_URL = re.compile(r"data:([a-zA-Z0-9.+/-]+);base64,([A-Za-z0-9+/]*={0,2})")
#: How the editor begins the report of an error.
_EDITOR_ERROR = "ERROR:\n"
#: What the contract calls a file that is no text.
_BINARY = "ERROR_BINARY_FILE"
_BINARY_HINT = "\nThe file is not text. Look at it with a command or a program that knows its format."


def failed(text: str) -> ToolResult:
    """The result of a call that came to nothing."""
    return ToolResult(parts=[TextPart(text=text or "The call failed.")], is_error=True)


def result(observation: Observation) -> ToolResult:
    """What a model is shown of an observation."""
    match observation:
        case CommandObservation():
            return ToolResult(parts=[TextPart(text=shown_command(observation))], observation=observation)
        case CmdOutputObservation():
            return ToolResult(parts=[TextPart(text=_contract_text(observation))], observation=observation)
        case IPythonRunCellObservation():
            return _plain(observation, *_pictures(observation.image_urls or ()))
        case BrowserOutputObservation():
            pictures = _pictures([observation.screenshot, *observation.goal_image_urls])
            return _plain(observation, *pictures, is_error=observation.error)
        case FileReadObservation():
            return _read(observation)
        case FileEditObservation():
            return _plain(observation, is_error=observation.content.startswith(_EDITOR_ERROR))
        case ErrorObservation():
            return _error(observation)
        case MCPObservation():
            return mcp_result(observation)
    return _plain(observation)


def _plain(observation: Observation, *images: Part, is_error: bool = False) -> ToolResult:
    """Its text; one that has none says what was done."""
    text = TextPart(text=observation.content or observation.message)
    return ToolResult(parts=[text, *images], is_error=is_error, observation=observation)


def _contract_text(observation: CmdOutputObservation) -> str:
    """The output of a command of the contract, with its own words about it."""
    metadata = observation.metadata
    return f"{metadata.prefix}{observation.content}{metadata.suffix}"


def shown_command(observation: CommandObservation) -> str:
    """The output of a command, what there is to know besides, and how the command is, in words."""
    lines = [observation.content.strip("\n"), *(f"[{note}]" for note in observation.notes)]
    lines.append(f"[{_how_it_is(observation)}]")
    return "\n".join(line for line in lines if line)


def _how_it_is(observation: CommandObservation) -> str:
    command = observation.command
    program = f" ({command.program})" if command.program else ""
    go_on = 'call again with is_input true to answer, with keys, or with "C-c" to interrupt it.'
    match command.state:
        case "ended":
            where = f" Current directory: {command.cwd}" if command.cwd else ""
            return f"The command ended with exit code {command.exit_code}.{where}"
        case "waiting_for_input":
            wanted = "a password" if command.echo_off else "input"
            return f"The command waits for {wanted}: {command.prompt or '(no prompt)'}; {go_on}"
        case "waiting_for_approval":
            return (
                f"The command has not started: the user has not decided yet ({command.prompt}). Call again "
                'with command "" to wait for the decision, or with "C-c" to withdraw the command.'
            )
        case "pager":
            return (
                f"The command shows a pager{program}: call again with keys such as Space, or q to leave it."
            )
        case "editor":
            return f"The command shows an editor{program}: call again with keys to use or leave it."
        case "stopped":
            return f"The command is stopped{program}; send it a signal, or {go_on}"
    return (
        'The command still runs. Call again with command "" to wait for more output, with is_input true to '
        'type a line, or with "C-c" to interrupt it.'
    )


def _read(observation: FileReadObservation) -> ToolResult:
    content = observation.content
    if (part := media_part(content)) is not None:
        return ToolResult(parts=[part], observation=observation)
    if not content:
        text = f"[{observation.path} is empty.]"
    elif len(content) > READ_LIMIT:
        text = (
            f"{content[:READ_LIMIT]}\n[These are the first {READ_LIMIT:,} of {len(content):,} characters. "
            "Give a view_range to read on.]"
        )
    else:
        text = content
    refused = observation.impl_source == "oh_aci" and content.startswith(_EDITOR_ERROR)
    return ToolResult(parts=[TextPart(text=text)], is_error=refused, observation=observation)


def _error(observation: ErrorObservation) -> ToolResult:
    text = observation.content or "The action failed."
    if text == _BINARY:
        text += _BINARY_HINT
    return ToolResult(parts=[TextPart(text=text)], is_error=True, observation=observation)


# Pictures.


def media_part(url: str) -> Part | None:
    """What a data URL holds: a picture, or a word about something else; None if the text is no data URL."""
    if not url.startswith("data:") or (match := _DATA_URL.fullmatch(url)) is None:
        return None
    return blob_part(match[1], match[2])


def blob_part(media_type: str, data: str) -> Part:
    """Bytes in base64: a picture that a model can look at, or a word about what they are."""
    whole = bool(data) and len(data) % 4 == 0
    if media_type in PICTURES and whole:
        return ImagePart(media_type=media_type, data=data)
    size = len(data) // 4 * 3 - data.count("=", -2)
    return TextPart(text=f"[{media_type}, {size:,} bytes, not shown.]")


def _pictures(urls: Iterable[str]) -> list[Part]:
    """Pictures by their addresses; one that is elsewhere is named."""
    return [media_part(url) or TextPart(text=f"[Picture: {url}]") for url in urls if url]


def mcp_result(observation: MCPObservation) -> ToolResult:
    """The parts of the answer; a text that is none is shown as it is."""
    try:
        answer = decode_json(observation.content)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        return ToolResult(parts=[TextPart(text=observation.content)], observation=observation)
    content = answer.get("content")
    parts = [_part(block) for block in content] if isinstance(content, list) else []
    if isinstance(answer.get("error"), str):
        parts.append(TextPart(text=answer["error"]))
    structured = answer.get("structuredContent")
    if not parts:
        empty = "[The tool answered with nothing.]"
        parts.append(TextPart(text=_json(structured) if structured is not None else empty))
    return ToolResult(
        parts=parts,
        is_error=answer.get("isError") is True,
        observation=observation,
        structured=structured if isinstance(structured, dict) else None,
    )


def _part(block: Any) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return TextPart(text=text)
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return blob_part(_media_type(block, f"some {kind}"), data)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return TextPart(text=text)
        case {"type": "resource", "resource": {"blob": str(data)} as resource}:
            part = blob_part(_media_type(resource, "application/octet-stream"), data)
            uri = resource.get("uri")
            return TextPart(text=f"{uri} {part.text}") if uri and isinstance(part, TextPart) else part
        case {"type": "resource_link", "uri": str(uri)}:
            said = [block.get("title") or block.get("name"), block.get("description")]
            return TextPart(text=": ".join([uri, *(one for one in said if isinstance(one, str) and one)]))
    return TextPart(text=_json(block))


def _media_type(block: dict[str, Any], otherwise: str) -> str:
    given = block.get("mimeType")
    return given if isinstance(given, str) and given else otherwise


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
