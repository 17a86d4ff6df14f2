from __future__ import annotations

import subprocess
import sys

import pytest

from glovebox.box.files.disk.encoding import SAMPLE_SIZE, is_binary, is_binary_name


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"plain text\n",
        b"tabs\tand\x0cfeeds\x08\r\n",
        "naïve – 日本 🎉\n".encode(),
        "café crème".encode("latin-1"),
        "日本".encode(),
        ("日本語" * 500).encode()[:SAMPLE_SIZE],
        ("x" + "日本語" * 500).encode()[:SAMPLE_SIZE],
        "hello wörld\n".encode("utf-16"),
        "ÿ Это русский текст для проверки кодировки, достаточно длинный. ".encode("cp1251", "ignore")
        + b"\xff",
        "これは日本語の文章です。エンコーディングを調べます。".encode("shift_jis"),
        b"\x1b[31mred\x1b[0m some more text\n",
    ],
)
def test_text_is_not_binary(data: bytes) -> None:
    assert not is_binary(data)


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 4,
        b"text with a \x00 in it",
        b"text with a \xff in it",
        "text without a mark".encode("utf-16-le"),
        bytes(range(1, 8)) * 20,
        bytes(range(128, 250)) * 4,
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"\x7fELF\x02\x01\x01\x00",
    ],
)
def test_other_data_is_binary(data: bytes) -> None:
    assert is_binary(data)


def test_only_compiled_python_is_binary_by_name() -> None:
    assert is_binary_name("/a/x.pyc")
    assert not is_binary_name("/a/x.py")
    assert not is_binary_name("/a.pyc/x")


def test_ordinary_text_is_judged_without_loading_a_detector() -> None:
    program = (
        "import sys; from glovebox.box.files.disk.encoding import is_binary; "
        "is_binary('ü text'.encode()), is_binary(('日本語' * 500).encode()[:1024]); "
        "print('charset_normalizer' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
