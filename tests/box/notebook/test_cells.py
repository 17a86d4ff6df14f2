"""Cells in the main kernel: what they are answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from glovebox import Runtime
from glovebox.protocol.actions import IPythonRunCellAction
from glovebox.protocol.observations import IPythonRunCellObservation
from tests.box.notebook.cells import Asking, Cells
from tests.server.reading import envelope
from tests.support.running import wait_until
from tests.support.waiting import LIMIT

NO_OUTPUT = "[Code executed successfully with no output]"
IMAGE = """
from IPython.display import Image, display
import base64
pixel = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
display(Image(pixel))
Image(pixel)
"""


@pytest.mark.parametrize(
    ("code", "content"),
    [
        ("print('hello')", "hello"),
        ("'a\\nb'", "'a\\nb'"),
        ("print('p')\n'e'", "p\n'e'"),
        ("None", NO_OUTPUT),
        ("", NO_OUTPUT),
        ("# nothing", NO_OUTPUT),
        ("for i in range(3):\n    print(i)", "0\n1\n2"),
        ("print('日本 🎉 é')", "日本 🎉 é"),
        ("print('a  \\n\\n\\n')", "a"),
        ("print('   a')", "   a"),
        ("display('shown')", "'shown'"),
        ("print('\\x1b[31mred\\x1b[0m')", "red"),
        ("print('z' * 40000)", "z" * 40000),
        ("import sys; print('err', file=sys.stderr)", "err"),
        ("!echo from shell", "from shell"),
        ("%%bash\necho bash cell", "bash cell"),
        ("await __import__('asyncio').sleep(0, 'awaited')", "'awaited'"),
    ],
)
def test_a_cell_is_answered_with_what_it_gives_out(notebook: Cells, code: str, content: str) -> None:
    assert notebook.run(code) == content


def test_the_answer_ends_with_where_the_shell_is_and_the_interpreter(notebook: Cells, tmp_path: Path) -> None:
    observation = notebook.observation("print('x')", extra=True)
    interpreter = notebook.run("print(sys.executable)")
    assert observation["content"] == (
        f"x\n[Jupyter current working directory: {tmp_path}]\n[Jupyter Python interpreter: {interpreter}]"
    )
    assert observation["extras"] == {"code": "print('x')", "image_urls": None}
    assert observation["success"] is True


def test_an_exception_is_shown_as_ipython_does_without_colours(notebook: Cells) -> None:
    expected = (
        "ZeroDivisionError                         Traceback (most recent call last)\n"
        "Cell In[1], line 1\n----> 1 1/0\n\nZeroDivisionError: division by zero"
    )
    assert notebook.run("print('before'); 1/0").startswith("before\n-------")
    assert notebook.run("1/0").partition("\n")[2] == expected


def test_a_failed_cell_does_not_harm_the_next_one(notebook: Cells) -> None:
    for _ in range(20):
        notebook.run("1/0")
        assert notebook.run("print('fine')") == "fine"


def test_images_are_in_the_answer(notebook: Cells) -> None:
    images = notebook.observation(IMAGE)["extras"]["image_urls"]
    assert len(images) == 2
    assert images[0].startswith("data:image/png;base64,iVBORw0KGgo")


def test_os_and_sys_are_there_and_nothing_of_ours(notebook: Cells) -> None:
    kernel = Cells(notebook.box, "clean")
    try:
        names = kernel.run("print(sorted(n for n in globals() if not n.startswith('_')))")
        assert names == "['In', 'Out', 'exit', 'get_ipython', 'open', 'os', 'quit', 'sys']"
        assert kernel.run("print([n for n in globals() if 'glovebox' in n.lower()])") == "[]"
    finally:
        notebook.box.client.delete("/kernels/clean")


def test_input_is_refused(notebook: Cells) -> None:
    assert "StdinNotImplementedError" in notebook.run("input('name? ')")


def test_the_kernel_follows_the_shell_until_it_moves_itself(notebook: Cells, tmp_path: Path) -> None:
    (tmp_path / 'it\'s a "sub"').mkdir()
    assert notebook.run("print(os.getcwd())") == str(tmp_path)
    notebook.box.run('cd "it\'s a \\"sub\\""')
    assert notebook.run("print(os.getcwd())") == f'{tmp_path}/it\'s a "sub"'
    assert notebook.run("os.chdir('/'); print(os.getcwd())") == "/"
    assert notebook.run("print(os.getcwd())") == "/"
    notebook.box.run("cd ..")
    assert notebook.run("print(os.getcwd())") == str(tmp_path)


def test_a_shell_in_a_directory_that_is_gone_does_no_harm(notebook: Cells, tmp_path: Path) -> None:
    notebook.box.run("mkdir gone; cd gone; rmdir ../gone")
    assert notebook.run("print('still here')") == "still here"


def test_a_cell_that_takes_too_long_is_interrupted_and_variables_survive(notebook: Cells) -> None:
    notebook.run("kept = 5")
    answer = notebook.observation("import time; print('part', flush=True); time.sleep(300)", timeout=2.5)
    assert answer["content"] == "[Execution timed out (2.5 seconds).]"
    assert answer["extras"]["image_urls"] is None
    assert notebook.run("print(kept)") == "5"


def test_a_child_process_is_interrupted_too(notebook: Cells) -> None:
    code = "import subprocess; subprocess.run(['sleep', '600'])"
    assert notebook.run(code, timeout=2.5) == "[Execution timed out (2.5 seconds).]"
    assert notebook.run("print('free')", timeout=LIMIT) == "free"


def test_a_cell_that_does_not_stop_is_interrupted_again(notebook: Cells) -> None:
    stubborn = """
import time
count = 0
while count < 3:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        count += 1
"""
    assert notebook.run(stubborn, timeout=2.5).startswith("[Execution timed out (2.5 seconds).]")
    assert notebook.run("print(count)", timeout=LIMIT) == "3"


def test_waiting_counts_and_does_not_interrupt_the_cell_that_runs(notebook: Cells, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    first = Asking(
        notebook,
        f"import os, time\nopen('running', 'w')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        "print('first')",
    )
    wait_until((tmp_path / "running").exists)
    waited = notebook.run("print('second')", timeout=0.3)
    assert waited.splitlines() == [
        "[Execution timed out (0.3 seconds).]",
        "[The kernel was busy with another cell all the time, and this one was not run.]",
    ]
    assert notebook.info()["state"] == "busy"
    gate.touch()
    assert first.content() == "first"
    assert notebook.run("print('third')") == "third"


def test_cells_of_one_kernel_run_in_the_order_they_came(notebook: Cells) -> None:
    notebook.run("order = []")
    cells = [
        Asking(notebook, f"order.append({number}); import time; time.sleep(0.01)") for number in range(8)
    ]
    for cell in cells:
        assert cell.content() == NO_OUTPUT
    assert notebook.run("print(sorted(order), len(order))") == "[0, 1, 2, 3, 4, 5, 6, 7] 8"


def test_sys_exit_does_not_end_the_kernel(notebook: Cells) -> None:
    notebook.run("kept = 6")
    assert notebook.run("sys.exit(3)").endswith("SystemExit: 3")
    assert notebook.run("print(kept)") == "6"


def test_code_with_a_null_character_is_a_syntax_error(notebook: Cells) -> None:
    assert "null bytes" in notebook.run("a = 'x\0y'")
    assert notebook.run("print('fine')") == "fine"


def test_half_characters_can_be_printed(notebook: Cells) -> None:
    assert notebook.run("print('a\\ud800b', b'\\xff'.decode('utf-8', 'surrogateescape'))") == (
        "a\\ud800b \\udcff"
    )


def test_code_that_is_not_unicode_is_refused(notebook: Cells) -> None:
    body = b'{"action": {"action": "run_ipython", "args": {"code": "print(\'\\ud800\')"}}}'
    answer = notebook.box.client.post(
        "/execute_action", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    assert notebook.run("print('fine')") == "fine"


def test_much_code_and_much_output_do_not_end_the_box(notebook: Cells) -> None:
    assert notebook.run("'" + "y" * 3_000_000 + "'; print('done')") == "done"
    assert len(notebook.run("print('x' * 30_000_000)")) == 30_000_000
    assert notebook.run("print('fine')") == "fine"


def test_many_outputs_in_a_row_all_arrive(notebook: Cells) -> None:
    shown = notebook.run("for i in range(5000): display(i)")
    assert shown == "".join(str(number) for number in range(5000))


def test_prints_and_displays_in_a_row_keep_their_order(notebook: Cells) -> None:
    shown = notebook.run("for i in range(2000):\n    print('p')\n    display(i)")
    assert shown == "".join(f"p\n{number}" for number in range(2000))


def test_threads_that_print_at_the_same_time_lose_nothing(notebook: Cells) -> None:
    code = """
import threading
def work(name):
    for number in range(2000):
        print(f'{name}{number};', end='', flush=number % 7 == 0)
threads = [threading.Thread(target=work, args=(name,)) for name in 'abcd']
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    pieces = notebook.run(code).split(";")[:-1]
    assert sorted(pieces) == sorted(f"{name}{number}" for name in "abcd" for number in range(2000))


@pytest.mark.parametrize(
    ("code", "status", "error", "message"),
    [
        ("1/0", "error", "ZeroDivisionError", "division by zero"),
        ("6 * 7", "ok", None, None),
        ("1 +", "error", "SyntaxError", "invalid syntax (<ipython-input-1>, line 1)"),
    ],
)
def test_details_say_whether_a_cell_failed_and_the_contract_does_not(
    notebook: Cells, code: str, status: str, error: str | None, message: str | None
) -> None:
    plain = notebook.observation(code)
    assert plain["success"] is True
    assert set(plain["extras"]) == {"code", "image_urls"}
    body = {**envelope("run_ipython", code=code, include_extra=False), "details": True}
    answer = notebook.box.client.post("/execute_action", json=body).json()
    assert answer["success"] is True
    assert set(answer["extras"]) == {"code", "image_urls"}
    cell = answer["details"]["cell"]
    assert (cell["status"], cell["error"]) == (status, error)
    assert (cell["message"] or "").partition(" (")[0] == (message or "").partition(" (")[0]


async def test_the_python_api_says_whether_a_cell_failed(notebook: Cells) -> None:
    async with Runtime(notebook.box.url, key=notebook.box.key) as runtime:
        failed = await runtime.run_ipython("1/0")
        assert isinstance(failed, IPythonRunCellObservation)
        assert failed.cell
        assert (failed.success, failed.cell.status, failed.cell.error) == (
            False,
            "error",
            "ZeroDivisionError",
        )
        assert (await runtime.run_ipython("6 * 7")).success
        late = await runtime.run_ipython("import time; time.sleep(600)", timeout=0.2)
        assert late.success is False
        stream = runtime.stream(IPythonRunCellAction(code="1/0"))
        async for _ in stream:
            pass
        assert stream.observation
        assert stream.observation.success is False
