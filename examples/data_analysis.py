"""A table, a computation, and a plot as a file: cells in a kernel that keeps its variables.

python examples/data_analysis.py [DIRECTORY]
"""

import sys
from pathlib import Path

from glovebox import Box

TABLE = "year,visitors\n2021,120\n2022,340\n2023,410\n2024,980\n"

READ = """
import csv
rows = [(int(row["year"]), int(row["visitors"])) for row in csv.DictReader(open("visitors.csv"))]
growth = rows[-1][1] / rows[0][1]
round(growth, 1)
"""
PLOT = """
import matplotlib.pyplot as plt
plt.bar(*zip(*rows))
plt.title("Visitors")
plt.show()
"""


def main(directory: Path) -> None:
    with Box() as box:
        box.files.write("visitors.csv", TABLE)
        growth = box.notebook.run(READ, timeout=60).check().value
        print(f"The number of visitors has grown {growth} times.")
        plot = box.notebook.run(PLOT, timeout=120).check()
        print(f"The plot is in {plot.save_image(directory / 'visitors.png')}.")
        failed = box.notebook.run("rows[99]")
        print(f"A cell that fails says so: {failed.status}, {failed.error}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "."))
