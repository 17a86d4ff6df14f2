"""Control keys, as the contract writes them: `C-c`."""

from __future__ import annotations

#: What a keyboard sends for Control with a character that has no control code of its own.
_UNUSUAL = {"?": 127, "2": 0, "3": 27, "4": 28, "5": 29, "6": 30, "7": 31, "8": 127}


def control_key(command: str) -> bytes | None:
    """The byte a command like `C-c` stands for, or `None` if it is not a key."""
    if len(command) != 3 or not command.startswith("C-"):
        return None
    character = command[2].upper()
    if "@" <= character <= "_":
        return bytes([ord(character) & 0x1F])
    if character in _UNUSUAL:
        return bytes([_UNUSUAL[character]])
    return command[2].encode()
