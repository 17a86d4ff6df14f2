# mypy: ignore-errors
"""Runs inside Python kernels: its text is sent to each when it starts, so it imports nothing of this project.

It makes what cells print complete, prompt and in order:

- Output to the descriptors (of child processes, of C libraries) is read from the pipe before anything else is
  printed and before a cell ends. `ipykernel` has a thread for this, which is often too late.
- Text is sent after 20 ms, not 200.
- What a thread prints belongs to the cell that started it, not to the cell that runs by then.
- What was printed is sent before the process ends itself.
- Nothing of it stays in memory.
- The code of cells is not sent back to the server.

It also completes the path of modules: kernels start without the current directory and `PYTHONPATH`, so that a
module there does not take the place of one that they are made of.

It patches `ipykernel` 7; other versions are left as they are.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import functools
import logging
import os
import select
import sys
import threading
import time

from ipykernel import version_info
from ipykernel.iostream import OutStream

_KNOWN_VERSION = 7
#: More than a pipe holds: reading once takes all that was written before.
_PIPE = 1 << 16
_FLUSH_SECONDS = 0.02
#: Seconds for the thread of ZeroMQ to send what is queued; it does not say when it has.
_LEAVING_SECONDS = 0.1


class _Cell:
    runs = False


class KernelStream(OutStream):
    """Standard output or error of a kernel."""

    flush_interval = _FLUSH_SECONDS

    def take_over(self, descriptor):
        """Read a descriptor instead of the thread of `ipykernel`."""
        self._collecting = threading.RLock()
        self._queueing = threading.RLock()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        if self._fid is None:  # as under pytest
            self._fid, writing = os.pipe()
            self._original_stdstream_copy = os.dup(descriptor)
            os.dup2(writing, descriptor)
            os.close(writing)
        else:
            self._should_watch = False
            os.write(descriptor, b"\0")  # its thread looks only when it has read something
            self.watch_fd_thread.join()
        os.set_blocking(self._fid, False)
        threading.Thread(target=self._watch, name=f"{self.name} watch", daemon=True).start()

    def write(self, string):
        """Print, after earlier output to the descriptor."""
        if self._is_master_process():
            self._collect()
        if isinstance(string, str) and not string.isascii():  # half characters cannot be sent
            string = string.encode("utf-8", "backslashreplace").decode()
        self._after_the_other()
        return super().write(string)

    def flush(self):
        """Send what was printed, before anything that is sent later."""
        if not self._is_master_process():
            super().flush()
            return
        if _c_stdout is not None:
            _libc.fflush(_c_stdout)
        self._collect()
        with self._queueing:
            if not self._buffers:
                return
            super()._flush()
        # A cell that flushes before it does something dangerous relies on this.
        if _Cell.runs and self.pub_thread.thread is not threading.current_thread():
            sent = threading.Event()
            self.pub_thread.schedule(sent.set)
            sent.wait(self.flush_timeout)

    def _flush(self):
        if not self._is_master_process():
            super()._flush()
            return
        # Nothing else may be queued between taking and queueing the text. The thread that empties the queue
        # must not wait for one that may wait for room in it; the thread that flushes now sends all text.
        if self._queueing.acquire(blocking=False):
            try:
                super()._flush()
            finally:
                self._queueing.release()

    def _collect(self):
        """Print the output to the descriptor; False if it was closed."""
        with self._collecting:
            try:
                data = os.read(self._fid, _PIPE)
            except BlockingIOError:
                return True
            if data:
                self._after_the_other()
                super().write(self._decoder.decode(data))
            return bool(data)

    def _after_the_other(self):
        """Send the earlier text of the other stream, of which a part may already be sent."""
        other = sys.stderr if self is sys.stdout else sys.stdout
        if isinstance(other, KernelStream) and other is not self and other._buffers:
            other._flush()

    def _watch(self):
        readable = select.poll()
        readable.register(self._fid, select.POLLIN)
        while readable.poll() and self._collect():
            pass


def _cell_begins(*_):
    _Cell.runs = True


def _cell_ends(shell):
    _Cell.runs = False
    # IPython keeps all output for a history, which there is not.
    getattr(shell.history_manager, "outputs", {}).clear()


def _stop_copying_output(shell):
    """Undo the copying of output by IPython, which replaces `write` while a cell runs, as it does now."""

    def first():
        for stream in (sys.stdout, sys.stderr):
            vars(stream).pop("write", None)
        shell.events.unregister("pre_execute", first)

    shell._tee = lambda channel: contextlib.nullcontext()
    shell.events.register("pre_execute", first)


def _flush_first(function):
    """A function that may end the process: printed text is sent before."""
    kernel = os.getpid()

    @functools.wraps(function)
    def flush_first(*args, **kwargs):
        if os.getpid() == kernel and (function.__name__ != "kill" or kernel in args):
            sys.stdout.flush()
            sys.stderr.flush()
            time.sleep(_LEAVING_SECONDS)
        return function(*args, **kwargs)

    return flush_first


def _keep_cell(start, variables):
    """`Thread.start`, for threads whose output belongs to the cell that starts them."""

    @functools.wraps(start)
    def start_with_cell(thread):
        values = [(variable, variable.get(None)) for variable in variables]
        run = thread.run

        def run_with_cell():
            for variable, value in values:
                if value is not None:
                    variable.set(value)
            run()

        thread.run = run_with_cell
        start(thread)

    return start_with_cell


def _parents(shell):
    """The context variables that name the cell of printed and displayed output."""
    holders = (sys.stdout, sys.stderr, shell.display_pub, shell.displayhook)
    found = [getattr(holder, "_parent_header", None) for holder in holders]
    found += [getattr(shell.kernel, name, None) for name in ("_shell_parent", "_shell_parent_ident")]
    return [variable for variable in found if hasattr(variable, "get") and hasattr(variable, "set")]


def _prepare(shell):
    shell.kernel._execute_sleep = 0  # a pause that IPython makes for output to arrive
    shell.kernel._publish_execute_input = lambda *_: None
    shell.kernel.log.setLevel(logging.WARNING)  # lower records would be made and dropped
    publishing = sys.stdout.pub_thread
    # Messages that cannot be sent yet are never dropped.
    publishing.schedule(lambda: publishing.socket.set_hwm(0))
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        stream.__class__ = KernelStream
        stream.take_over(descriptor)
    _stop_copying_output(shell)
    shell.events.register("pre_run_cell", _cell_begins)
    shell.events.register("post_run_cell", lambda *_: _cell_ends(shell))
    for name in ("_exit", "abort", "kill"):
        setattr(os, name, _flush_first(getattr(os, name)))
    threading.Thread.start = _keep_cell(threading.Thread.start, _parents(shell))


def _complete_path():
    """Search the current directory after the standard library, and `PYTHONPATH` after everything."""
    if "" not in sys.path:
        places = [os.path.basename(path) for path in sys.path]
        sys.path.insert(places.index("site-packages") if "site-packages" in places else 0, "")
    named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))  # noqa: TID251
    sys.path += [path for path in map(os.path.abspath, named) if path not in sys.path]


_complete_path()
try:
    _libc = ctypes.CDLL(None)
    _c_stdout = ctypes.c_void_p.in_dll(_libc, "stdout")
except (OSError, ValueError):
    _c_stdout = None
if version_info[0] == _KNOWN_VERSION:
    _prepare(get_ipython())  # noqa: F821
