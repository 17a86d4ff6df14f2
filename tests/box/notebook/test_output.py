"""What cells give out, when it comes, and to whom it belongs."""

from __future__ import annotations

import pytest

from tests.box.notebook.cells import Cells
from tests.server.reading import envelope, following, joined, messages, streaming, until
from tests.support.running import wait_until

CHILDREN = """
import os, subprocess
print('python one')
os.system('echo shell')
print('python two')
subprocess.run(['sh', '-c', 'echo child; echo error >&2'])
os.write(1, 'descriptor é\\n'.encode())
"""


def test_what_is_written_to_descriptors_is_in_the_answer_every_time(notebook: Cells) -> None:
    for number in range(200):
        assert notebook.run(f"import os; _ = os.system('echo hi {number}')") == f"hi {number}"


def test_what_children_print_stands_where_it_was_printed(notebook: Cells) -> None:
    for _ in range(20):
        lines = notebook.run(CHILDREN).splitlines()
        assert [line for line in lines if line != "error"] == [
            "python one", "shell", "python two", "child", "descriptor é", "14",
        ]  # fmt: skip
        assert "error" in lines


def test_what_children_print_stands_before_the_traceback(notebook: Cells) -> None:
    for _ in range(20):
        assert notebook.run("import os; os.system('echo first'); 1/0").startswith("first\n----")


def test_what_c_libraries_print_is_in_the_answer(notebook: Cells) -> None:
    code = "import ctypes; _ = ctypes.CDLL(None).printf(b'from c\\n')"
    assert [notebook.run(code) for _ in range(5)] == ["from c"] * 5


def test_what_cells_print_does_not_stay_in_the_kernel(notebook: Cells) -> None:
    notebook.run("print('x' * 1000)\ndisplay('shown')\n'result'")
    assert notebook.run("print(len(get_ipython().history_manager.outputs))") == "0"


def test_a_lot_from_a_child_arrives_whole(notebook: Cells) -> None:
    expected = "\n".join(map(str, range(1, 200_001)))
    assert notebook.run("import subprocess; _ = subprocess.run(['seq', '200000'])") == expected


def test_children_that_were_forked_print_too(notebook: Cells) -> None:
    code = """
import multiprocessing
def work(): print('forked', flush=True)
child = multiprocessing.get_context('fork').Process(target=work)
child.start(); child.join()
"""
    content, cell = notebook.detailed(code)
    wait_until(lambda: "forked" in str(notebook.record(cell)["outputs"]), what="the output of the child")
    assert "Error" not in content


def test_output_is_told_while_the_cell_runs(notebook: Cells, tmp_path: object) -> None:
    code = f"""
import os, time
print('begun')
while not os.path.exists('{tmp_path}/seen'): time.sleep(0.01)
print('ended')
"""
    with streaming(notebook.box, envelope("run_ipython", code=code, include_extra=False)) as told:
        until(told, "output", "begun")
        notebook.box.run(f"touch '{tmp_path}/seen'")
        rest = list(told)
    assert joined(rest) == "ended\n"
    assert rest[-1].json["content"] == "begun\nended"


def test_states_of_a_cell_are_told(notebook: Cells) -> None:
    told = notebook.told("print(1)")
    states = [message.json for message in told if message.event == "state"]
    assert [(cell["state"], cell["status"]) for cell in states] == [("running", None), ("ended", "ok")]
    assert states[-1]["output_bytes"] == 2
    ended = [message.json for message in notebook.told("1/0") if message.event == "state"][-1]
    assert (ended["status"], ended["error"]) == ("error", "ZeroDivisionError")


def test_text_is_told_in_order_and_rich_output_with_all_it_has(notebook: Cells) -> None:
    code = "from IPython.display import HTML\nprint('a')\ndisplay(HTML('<b>x</b>'), display_id='d')\n'r'"
    told = notebook.told(code)
    assert joined(told) == "a\n<IPython.core.display.HTML object>'r'"
    [shown] = [message.json for message in told if message.event == "display"]
    assert (shown["kind"], shown["display_id"]) == ("display_data", "d")
    assert shown["data"]["text/html"] == "<b>x</b>"


def test_long_text_is_told_whole(notebook: Cells) -> None:
    assert joined(notebook.told("print('w' * 1_500_000)")) == "w" * 1_500_000 + "\n"


LATE = """
import threading, time
gate = threading.Event()
def work():
    gate.wait(30)
    print('late text')
thread = threading.Thread(target=work)
thread.start()
print('at once')
"""


def test_late_output_belongs_to_the_cell_that_caused_it(notebook: Cells) -> None:
    content, cell = notebook.detailed(LATE)
    assert content == "at once"
    with following(notebook.box, f"/events?kinds=output&action_id={cell}") as response:
        told = messages(response)
        other, other_cell = notebook.detailed("gate.set(); thread.join(); print('another cell')")
        late = until(told, "output", "late text")[-1].json
    assert other == "another cell"
    assert late["action_id"] == cell
    wait_until(lambda: len(notebook.record(cell)["outputs"]) >= 2, what="the late output")
    outputs = notebook.record(cell)["outputs"]
    assert "".join(output["text"] for output in outputs if not output["late"]) == "at once\n"
    assert "".join(output["text"] for output in outputs if output["late"]) == "late text\n"
    assert "late" not in "".join(output["text"] for output in notebook.record(other_cell)["outputs"])


def test_a_record_has_everything_a_cell_gave_out(notebook: Cells) -> None:
    _, cell = notebook.detailed("print('a')\nfrom IPython.display import HTML\nHTML('<i>')")
    record = notebook.record(cell)
    assert [output["kind"] for output in record["outputs"]] == ["stream", "execute_result"]
    assert record["outputs"][1]["data"]["text/html"] == "<i>"
    assert (record["cell"]["state"], record["cell"]["status"]) == ("ended", "ok")
    assert record["cell"]["id"] == cell


@pytest.mark.parametrize("path", ["/kernels/main/cells/nope", "/kernels/nope/cells/nope"])
def test_a_cell_that_is_not_there_is_404(notebook: Cells, path: str) -> None:
    answer = notebook.box.client.get(path)
    assert answer.status_code == 404
    assert answer.headers["x-glovebox-error"] in ("no_such_cell", "no_such_kernel")
