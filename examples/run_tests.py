"""Put a folder into a box, run its tests there, and fetch the report.

python examples/run_tests.py path/to/project
"""

import sys
import tempfile
from pathlib import Path

from glovebox import Box

PROJECT = {
    "shapes.py": "def area(width, height):\n    return width * height\n",
    "test_shapes.py": "from shapes import area\n\ndef test_area():\n    assert area(6, 7) == 42\n",
}


def sample_project(directory: Path) -> Path:
    """A project to test, if none is named."""
    project = directory / "project"
    project.mkdir()
    for name, text in PROJECT.items():
        (project / name).write_text(text)
    return project


def main(project: Path, report_directory: Path) -> int:
    with Box() as box:
        path = box.files.upload(project)
        outcome = box.run(
            f"cd {path} && python3 -m pytest -q --junitxml=report.xml",
            timeout=600,
            on_output=lambda text: print(text, end=""),
        )
        report = box.files.download(f"{path}/report.xml", report_directory)
        print(f"{outcome!r}; the report is in {report}")
    return outcome.exit_code


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        named = Path(sys.argv[1]) if sys.argv[1:] else sample_project(Path(directory))
        sys.exit(main(named, Path(directory)))
