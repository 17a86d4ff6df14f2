"""Keys of a keyboard by their names, as the bytes that a terminal sends for them."""

from __future__ import annotations

from glovebox.errors import BadInput

#: What a keyboard sends for Control with a character that has no control code of its own.
_UNUSUAL_KEYS = {"?": 127, "2": 0, "3": 27, "4": 28, "5": 29, "6": 30, "7": 31, "8": 127}
_NAMED = {
    "enter": b"\r",
    "tab": b"\t",
    "space": b" ",
    "escape": b"\x1b",
    "backspace": b"\x7f",
    "insert": b"\x1b[2~",
    "delete": b"\x1b[3~",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "backtab": b"\x1b[Z",
    **{f"f{number}": b"\x1bO" + b"PQRS"[number - 1 : number] for number in range(1, 5)},
    **{
        f"f{number}": b"\x1b[%d~" % code
        for number, code in zip(range(5, 13), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)
    },
}
#: These are sent differently in the application mode of cursor keys.
_CURSOR = {"up": b"A", "down": b"B", "right": b"C", "left": b"D", "home": b"H", "end": b"F"}
_SYNONYMS = {"return": "enter", "esc": "escape", "del": "delete", "pgup": "pageup", "pgdn": "pagedown"}


def control_key(command: str) -> bytes | None:
    """The byte that a command like `C-c` stands for, or `None` if it is no key."""
    if len(command) != 3 or not command.startswith("C-"):
        return None
    character = command[2].upper()
    if "@" <= character <= "_":
        return bytes([ord(character) & 0x1F])
    if character in _UNUSUAL_KEYS:
        return bytes([_UNUSUAL_KEYS[character]])
    return command[2].encode()


def key_bytes(name: str, *, application: bool = False) -> bytes:
    """What a terminal sends for a key: `C-c`, `M-x`, `Enter`, `Up`, `F1`, or one character.

    `application`: a program has switched the cursor keys to application mode.

    Raises:
        BadInput: there is no such key.
    """
    if (byte := control_key(name)) is not None:
        return byte
    if len(name) == 1:
        return name.encode("utf-8", "surrogatepass")
    if name.startswith("M-") and len(name) > 2:
        return b"\x1b" + key_bytes(name[2:], application=application)
    plain = name.lower().replace("_", "")
    plain = _SYNONYMS.get(plain, plain)
    if plain in _CURSOR:
        return (b"\x1bO" if application else b"\x1b[") + _CURSOR[plain]
    if plain not in _NAMED:
        known = ", ".join(one.capitalize() for one in [*_NAMED, *_CURSOR])
        raise BadInput(f"There is no key {name!r}. Use C-c and the like, M-x, one character, or: {known}.")
    return _NAMED[plain]
