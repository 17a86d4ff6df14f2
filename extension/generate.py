"""Writes src/protocol.ts from glovebox.protocol.window; with `--check`, says whether that is due."""

from __future__ import annotations

import ast
import inspect
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from glovebox.protocol import window
from glovebox.protocol.base import Message

TARGET = Path(__file__).parent / "src" / "protocol.ts"
HEAD = """\
// What a hub and a window say to each other. Written by generate.py from src/glovebox/protocol/window.py:
// change that, and run `.venv/bin/python extension/generate.py`.
"""
#: Unions and choices, by what they are called in TypeScript.
ALIASES = {
    "WindowStatus": window.WindowStatus,
    "Kind": window.Kind,
    "FailureCode": window.FailureCode,
    "Order": window.AnyOrder,
    "Answer": window.AnyAnswer,
    "Told": window.Told,
}
#: What a hub writes: with every field, also those that have a default.
FROM_HUB = (window.Registered, window.Window, window.Ordered, window.Cancelled, window.ActionReport)
PLAIN = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    bytes: "Uint8Array",
    type(None): "null",
}


def structs() -> list[type[Message]]:
    """Every message that is sent, as they are written; those that others are made of are left out."""
    found = [
        value
        for value in vars(window).values()
        if isinstance(value, type) and issubclass(value, Message) and value.__module__ == window.__name__
    ]
    return [struct for struct in found if not any(other.__base__ is struct for other in found)]


def parts(hint: object) -> tuple[object, ...]:
    """What a type is made of."""
    return typing.get_args(hint)


def spelled(hint: object, *, but: str = "") -> str:
    """A type in TypeScript; `but` is the alias that is being defined."""
    for name, alias in ALIASES.items():
        if hint == alias and name != but:
            return name
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return " | ".join(f'"{value}"' for value in parts(hint))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(spelled(part) for part in parts(hint))
    if origin is list:
        return f"{spelled(parts(hint)[0])}[]"
    if origin is dict:
        return f"Record<{', '.join(map(spelled, parts(hint)))}>"
    assert isinstance(hint, type), hint
    return PLAIN.get(hint) or hint.__name__


def reached(hint: object) -> Iterator[type[Message]]:
    """The messages that a type holds, at any depth."""
    for part in parts(hint):
        yield from reached(part)
    if isinstance(hint, type) and issubclass(hint, Message):
        yield hint
        for field in typing.get_type_hints(hint).values():
            yield from reached(field)


def above(lines: list[str], at: int) -> str:
    """The lines of comment that stand right above a line."""
    first = at
    while first > 0 and lines[first - 1].strip().startswith("#:"):
        first -= 1
    return "\n".join(line.strip().removeprefix("#:") for line in lines[first:at])


def comments() -> dict[tuple[str, str], str]:
    """What is said of each field of each class, and of each constant (with an empty class)."""
    source = inspect.getsource(window)
    lines = source.splitlines()
    found = {}
    tree = ast.parse(source)
    scopes: list[tuple[str, list[ast.stmt]]] = [("", tree.body)]
    scopes += [(node.name, node.body) for node in tree.body if isinstance(node, ast.ClassDef)]
    for scope, body in scopes:
        for node in body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    found[scope, name] = above(lines, node.lineno - 1)
    return found


def remark(text: str, indent: str = "") -> str:
    """A comment in front of something, or nothing."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


def interface(struct: type[Message], said: dict[tuple[str, str], str], *, whole: bool) -> str:
    """A message; `whole` if no field is left out on the wire."""
    hints = typing.get_type_hints(struct)
    text = remark(inspect.getdoc(struct) or "") + f"export interface {struct.__name__} {{\n"
    config = struct.__struct_config__
    if config.tag_field:
        text += f'  {config.tag_field}: "{config.tag}";\n'
    for field in msgspec.structs.fields(struct):
        owner = next(base for base in struct.__mro__ if field.name in inspect.get_annotations(base))
        text += remark(said.get((owner.__name__, field.name), ""), "  ")
        optional = "" if field.required or whole else "?"
        text += f"  {field.encode_name}{optional}: {spelled(hints[field.name])};\n"
    return text + "}\n"


def choices(text: str, name: str, kind: str, values: Iterable[object]) -> str:
    """A list of words, for code that has to check one."""
    lines = "".join(f'  "{value}",\n' for value in values)
    return f"{remark(text)}export const {name}: readonly {kind}[] = [\n{lines}];\n"


def written() -> str:
    """The whole file."""
    said = comments()
    whole = {struct for root in FROM_HUB for struct in reached(root)}
    orders = [order for order in structs() if issubclass(order, window.Order)]
    blocks = [HEAD, f"{remark(said['', 'PIECE'])}export const PIECE = {window.PIECE};\n"]
    for name, alias in ALIASES.items():
        lines = "".join(f"\n  | {choice}" for choice in spelled(alias, but=name).split(" | "))
        blocks.append(remark(said.get(("", name), "")) + f"export type {name} ={lines};\n")
    blocks += [interface(struct, said, whole=struct in whole) for struct in structs()]
    answers = "".join(f"  {order.__struct_config__.tag}: {order.answer.__name__};\n" for order in orders)
    blocks.append(f"/** What answers each kind of order. */\nexport interface AnswerTo {{\n{answers}}}\n")
    kinds = [order.__struct_config__.tag for order in orders]
    blocks.append(choices("Every kind of order.", "ORDERS", 'Order["kind"]', kinds))
    blocks.append(choices("Every reason there is.", "FAILURES", "FailureCode", parts(window.FailureCode)))
    actions = choices(said["", "COMPANION_ACTIONS"], "COMPANION_ACTIONS", "string", window.COMPANION_ACTIONS)
    blocks.append(f'{actions}export const ACTIONS_PATH = "{window.ACTIONS_PATH}";\n')
    paths = [f"{method} {path}" for method, path in window.FORWARDED_PATHS]
    blocks.append(choices(said["", "FORWARDED_PATHS"], "FORWARDED_PATHS", "string", paths))
    return "\n".join(blocks)


def main() -> int:
    """Write it, or say whether it has to be written."""
    text = written()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
        return 0
    if TARGET.exists() and TARGET.read_text() == text:
        return 0
    print(f"{TARGET.name} is out of date: run `.venv/bin/python extension/generate.py`.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
