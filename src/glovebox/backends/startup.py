"""What backends share when they start a box: the server's command, readiness, uninterruptible steps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from glovebox.client.backend import Address
from glovebox.client.spec import BoxSpec
from glovebox.errors import BoxDied, BoxUnreachable, DeadlineExceeded

#: Seconds between requests: short at first, as a box takes a fraction of a second, and longer later.
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5
_SHORT_PAUSES = 100
#: Seconds for one request: a server that accepts a connection and does not answer is asked again.
_ANSWER_LIMIT = 5.0
_CONNECT_LIMIT = 4.0

if TYPE_CHECKING:
    import aiohttp

ResultT = TypeVar("ResultT")


def serve_arguments(spec: BoxSpec, *, port: int, host: str, workspace: str) -> list[str]:
    """The arguments of `glovebox` that serve this box; no secret is among them."""
    arguments = ["serve", str(port), "--host", host, "--working-dir", workspace]
    if spec.plugins:
        arguments += ["--plugins", *spec.plugins]
    if spec.user:
        arguments += ["--username", spec.user, "--user-id", str(spec.user_id)]
    arguments.append("--enable-browser" if spec.browser else "--no-enable-browser")
    return [*arguments, *spec.arguments]


async def wait_until_alive(
    address: Address,
    limit: float,
    died: Callable[[], Awaitable[str | None]],
    *,
    connect_limit: float | None = None,
) -> None:
    """Wait until a box answers. `died` returns the last output of a box that has ended, else None.

    With `connect_limit`, no connection within so many seconds is the end: the box was not started just now.

    Raises:
        BoxDied: it has ended.
        BoxUnreachable: nothing accepted a connection within `connect_limit` seconds.
        DeadlineExceeded: it did not answer within `limit` seconds.
    """
    import aiohttp

    from glovebox.client.connection.http import is_loopback

    answer_limit = aiohttp.ClientTimeout(total=_ANSWER_LIMIT, sock_connect=_CONNECT_LIMIT)
    why = "nothing listens there"
    try:
        async with (
            asyncio.timeout(limit),
            # A proxy of the environment is for other machines only.
            aiohttp.ClientSession(timeout=answer_limit, trust_env=not is_loopback(address.url)) as session,
        ):
            pause, asked, begin = _FIRST_PAUSE, 0, time.monotonic()
            while True:
                why, connected = await _find_problem(session, f"{address.url.rstrip('/')}/alive")
                if not why:
                    return
                if connected:
                    connect_limit = None
                if connect_limit is not None and time.monotonic() - begin >= connect_limit:
                    raise BoxUnreachable(
                        f"No box answers at {address.url} ({why}). Is it running? Is the address right?"
                    )
                words = await died()
                if words is not None:
                    raise BoxDied(words)
                asked += 1
                if asked > _SHORT_PAUSES:
                    pause = min(pause * 1.5, _LONGEST_PAUSE)
                await asyncio.sleep(pause)
    except TimeoutError:
        raise DeadlineExceeded(
            f"No box answered at {address.url} within {limit:g} seconds ({why}). "
            "Give it more time, or look at its log."
        ) from None


async def _find_problem(session: aiohttp.ClientSession, url: str) -> tuple[str, bool]:
    """Why a box does not answer, empty if it does; and whether something accepts connections."""
    import aiohttp

    from glovebox.client.connection.http import connect_problem

    try:
        async with session.get(url) as answer:
            return "" if answer.status == 200 else f"the answer was {answer.status} {answer.reason}", True
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        return connect_problem(error), False
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return str(error) or type(error).__name__, True


async def finish(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine to its end even if the caller is cancelled; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return task.result()


async def undoable(work: Coroutine[Any, Any, ResultT], undo: Callable[[ResultT], Awaitable[None]]) -> ResultT:
    """Run a coroutine. If the caller is cancelled meanwhile, it is run to its end, and its result undone."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await finish(_undo(task, undo))
        raise


async def _undo(task: asyncio.Future[ResultT], undo: Callable[[ResultT], Awaitable[None]]) -> None:
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None:
        await undo(task.result())
