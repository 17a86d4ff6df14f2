from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glovebox.box.files.disk.encoding import UTF8, Encodings, TextEncoding, guess

FRENCH = "le premier café déjà vu à la crème brûlée\n"
JAPANESE = "日本語のテキストです。これはテストです。\n"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-32"])
@settings(deadline=None)
@given(text=st.text(min_size=1).filter(lambda text: text[0] != "\0"))  # with which the marks are ambiguous
def test_a_file_with_a_mark_is_decoded_and_gets_it_back(codec: str, text: str) -> None:
    data = text.encode(codec)
    decoded, encoding = Encodings().decode("/x", data)
    assert decoded == text
    assert encoding.encode(decoded) == data


def test_byte_order_is_kept() -> None:
    data = b"\xfe\xff" + "hello".encode("utf-16-be")
    text, encoding = Encodings().decode("/x", data)
    assert text == "hello"
    assert encoding.encode("hello") == data


@settings(deadline=None)
@given(st.text())
def test_valid_utf8_is_never_taken_for_something_else(text: str) -> None:
    data = ("x" + text).encode()  # not a mark
    assert Encodings().decode("/x", data) == ("x" + text, UTF8)


def test_another_encoding_is_guessed_and_written_back() -> None:
    text, encoding = Encodings().decode("/x", JAPANESE.encode("shift_jis"))
    assert text == JAPANESE
    assert encoding.encode(JAPANESE) == JAPANESE.encode("shift_jis")


def test_an_unsure_guess_is_utf8() -> None:
    assert guess(b"\xe9\xe8\xfb\n" * 4) == UTF8
    with pytest.raises(UnicodeDecodeError, match="'utf-8' codec can't decode byte 0xe9 in position 0"):
        Encodings().decode("/x", b"\xe9\xe8\xfb\n" * 4)


def test_a_guess_holds_until_the_file_changes() -> None:
    data = FRENCH.encode("latin-1")
    encodings = Encodings()
    latin = TextEncoding("latin-1")
    encodings.remember("/x", data, latin)
    assert encodings.decode("/x", data) == (FRENCH, latin)
    for path, content in (("/x", data + b"x"), ("/y", data)):
        assert encodings.decode(path, content)[1] == guess(content) != latin


def test_only_so_many_guesses_are_remembered() -> None:
    encodings = Encodings()
    latin = TextEncoding("latin-1")
    data = FRENCH.encode("latin-1")
    for number in range(1001):
        encodings.remember(f"/{number}", data, latin)
    assert encodings.decode("/1", data)[1] == latin
    assert encodings.decode("/0", data)[1] != latin
