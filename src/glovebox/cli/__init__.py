"""The command line.

Its own modules do not depend on who starts it: the directories of `PYTHONPATH`, and the current one after
`python -m glovebox`, are searched last, as they may hold packages of another Python. So they are after
`python -E`, with which a backend starts a server, so that no `sitecustomize` of theirs is loaded before this;
after `python -I` they are not searched. Commands in a box still have the variable.
"""

import os
import sys


def _search_own_modules_first() -> None:
    named = "" if sys.flags.isolated else os.environ.get("PYTHONPATH", "")  # noqa: TID251
    others = dict.fromkeys(os.path.abspath(path) for path in named.split(os.pathsep)) if named else {}
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if started is not None and started.name == "glovebox.__main__" and not sys.flags.safe_path:
        others[sys.path[0]] = None
    if not others:
        return
    import site

    library = os.path.dirname(os.__file__)
    for own in (library, os.path.join(library, "lib-dynload"), *site.getsitepackages()):
        others.pop(own, None)
    sys.path[:] = [path for path in sys.path if path not in others] + list(others)


_search_own_modules_first()
