"""The command line.

Its own modules do not depend on who starts it: the directories of `PYTHONPATH`, and the current one after
`python -m glovebox`, are searched last, as they may hold packages of another Python. Commands in a box still
have the variable.
"""

import os
import sys


def _search_own_modules_first() -> None:
    named = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")  # noqa: TID251
    others = {os.path.abspath(path) for path in named.split(os.pathsep)} if named else set()
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if started is not None and started.name == "glovebox.__main__" and not sys.flags.safe_path:
        others.add(sys.path[0])
    if not others:
        return
    import site

    library = os.path.dirname(os.__file__)
    others -= {library, os.path.join(library, "lib-dynload"), *site.getsitepackages()}
    sys.path.sort(key=others.__contains__)


_search_own_modules_first()
