"""The loop of an agent: it runs what a model says, and tells the model what happened.

The model here is a list of what one would have said; put a call of yours in its place.
"""

from collections.abc import Iterator

from glovebox import Box, CommandHandle
from glovebox.errors import CommandTimeout, CommandWaits

SCRIPT = [
    "mkdir -p demo && cd demo",
    "for n in 1 2 3; do echo step $n >> log.txt; echo did step $n; done",
    "less log.txt",  # a pager waits for a key
    "q",
    "read -p 'Delete the log? [y/n] ' answer; echo the answer was $answer",  # and this for an answer
    "y",
    "cat no-such-file",
]


def model(observations: list[str]) -> Iterator[str]:
    """What to do next. A model would read the observations."""
    yield from SCRIPT


def act(box: Box, text: str, waiting: CommandHandle | None) -> tuple[str, CommandHandle | None]:
    """Run a command, or answer the one that waits; what to tell the model, and what waits now."""
    try:
        if waiting is None:
            outcome = box.run(text, timeout=60, on_output=lambda piece: print(piece, end=""))
        else:
            if waiting.status().state == "pager":
                waiting.keys(text)
            else:
                waiting.send(f"{text}\n")
            outcome = waiting.result(timeout=60)
    except CommandWaits as asked:
        return f"{asked.output}\n[{asked}]", asked.command
    except CommandTimeout as late:
        return f"{late.output}\n[{late}]", late.command
    return f"{outcome.output}\n[exit code {outcome.exit_code}]", None


def main() -> None:
    observations: list[str] = []
    waiting: CommandHandle | None = None
    with Box() as box:
        for text in model(observations):
            print(f"\n>>> {text}")
            observation, waiting = act(box, text, waiting)
            observations.append(observation)
            print(f"\n{observation.splitlines()[-1]}")


if __name__ == "__main__":
    main()
