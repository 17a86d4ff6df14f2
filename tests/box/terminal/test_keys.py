from __future__ import annotations

import pytest

from glovebox.box.terminal.keys import control_key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("C-c", b"\x03"),
        ("C-C", b"\x03"),
        ("C-d", b"\x04"),
        ("C-z", b"\x1a"),
        ("C-\\", b"\x1c"),
        ("C-[", b"\x1b"),
        ("C-?", b"\x7f"),
        ("C-1", b"1"),
        ("C-é", "é".encode()),
    ],
)
def test_a_key_is_the_byte_a_keyboard_sends(text: str, key: bytes) -> None:
    assert control_key(text) == key


@pytest.mark.parametrize("text", ["", "C-", "C-cc", "c-c", "C_c", "echo", "abc"])
def test_other_text_is_no_key(text: str) -> None:
    assert control_key(text) is None
