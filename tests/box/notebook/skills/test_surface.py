from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glovebox.box.notebook import skills
from glovebox.box.notebook.kernelspecs import IMPORT
from glovebox.box.notebook.skills.documentation import documentation

ALWAYS = {
    "open_file": "(path: str, line_number: int | None = 1, context_lines: int | None = 100) -> None",
    "goto_line": "(line_number: int) -> None",
    "scroll_down": "() -> None",
    "scroll_up": "() -> None",
    "search_dir": "(search_term: str, dir_path: str = './') -> None",
    "search_file": "(search_term: str, file_path: str | None = None) -> None",
    "find_file": "(file_name: str, dir_path: str = './') -> None",
    "parse_pdf": "(file_path: str) -> None",
    "parse_docx": "(file_path: str) -> None",
    "parse_latex": "(file_path: str) -> None",
    "parse_pptx": "(file_path: str) -> None",
    "file_editor": "(command: str, path: str, file_text: str | None = None, "
    "view_range: list[int] | None = None, old_str: str | None = None, new_str: str | None = None, "
    "insert_line: int | None = None, enable_linting: bool = False) -> str",
}
WITH_A_KEY = {
    "parse_audio": "(file_path: str, model: str = 'whisper-1') -> None",
    "parse_image": "(file_path: str, task: str = 'Describe this image as detail as possible.') -> None",
    "parse_video": "(file_path: str, task: str = 'Describe this image as detail as possible.', "
    "frame_interval: int = 30) -> None",
}


def fresh(code: str, **environment: str) -> Any:
    """What code prints in a fresh process without keys, as JSON."""
    keys = ("OPENAI_API_KEY", "SANDBOX_ENV_OPENAI_API_KEY")
    inherited = {name: value for name, value in os.environ.items() if name not in keys}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


NAMES = (
    f"import json\nspace = {{}}\nexec({IMPORT!r}, space)\n"
    "print(json.dumps(sorted(space.keys() - {'__builtins__'})))"
)


def test_a_kernel_gets_exactly_the_functions_of_the_contract() -> None:
    assert fresh(NAMES) == sorted(ALWAYS)


@pytest.mark.parametrize("key", ["OPENAI_API_KEY", "SANDBOX_ENV_OPENAI_API_KEY"])
def test_with_a_key_there_are_those_that_ask_a_model(key: str) -> None:
    assert fresh(NAMES, **{key: "k"}) == sorted(ALWAYS | WITH_A_KEY)
    assert fresh(NAMES, **{key: ""}) == sorted(ALWAYS)


def test_importing_them_loads_nothing_else() -> None:
    code = (
        f"import sys\nbefore = set(sys.modules)\n{IMPORT}\nloaded = set(sys.modules) - before\n"
        "import json; print(json.dumps(sorted(loaded)))"
    )
    assert fresh(code) == [
        "glovebox",
        "glovebox.box",
        "glovebox.box.notebook",
        "glovebox.box.notebook.skills",
    ]


def test_the_editor_brings_no_server_along() -> None:
    code = (
        f"{IMPORT}\nfile_editor('view', '/')\nimport json, sys\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    assert not {"starlette", "uvicorn", "msgspec", "asyncio"} & set(fresh(code))


@pytest.mark.parametrize(("name", "signature"), (ALWAYS | WITH_A_KEY).items())
def test_help_shows_the_signature_and_explains_every_argument(name: str, signature: str) -> None:
    function = getattr(skills, name)
    assert str(inspect.signature(function)) == signature
    explained = re.findall(r"^    (\w+): ", inspect.getdoc(function) or "", re.MULTILINE)
    assert explained == list(inspect.signature(function).parameters)


def test_the_documentation_has_each_function_with_its_text_below() -> None:
    text = documentation()
    for name in skills.__all__:
        assert re.search(rf"^{name}\(.*\) -> \w+:\n    \w", text, re.MULTILINE), name
    assert text.count("\n    Args:\n") == len(skills.__all__) - 2
    assert (
        "goto_line(line_number: int) -> None:\n"
        "    Show the 100 lines around a line of the open file.\n\n"
        "    Args:\n        line_number: the line to have in the middle, from 1.\n\n"
    ) in text


def test_the_page_of_the_manual_names_every_function() -> None:
    page = (Path(__file__).parents[4] / "docs" / "skills.md").read_text(encoding="utf-8")
    for name in ALWAYS | WITH_A_KEY:
        assert f"`{name}(" in page, name
