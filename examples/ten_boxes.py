"""Ten boxes at once: each works on its part of a job, and none sees another's files."""

import asyncio
import sys

from glovebox import AsyncBox

CODE = """
import pathlib, sys
first = int(sys.argv[1])
primes = [n for n in range(first, first + 1000) if n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))]
pathlib.Path("primes.txt").write_text("\\n".join(map(str, primes)))
"""


async def work(part: int) -> int:
    """Count the primes of one range, in a box."""
    async with AsyncBox() as box:
        await box.files.write("sieve.py", CODE)
        (await box.exec(["python3", "sieve.py", str(part * 1000)], timeout=120)).check()
        return len((await box.files.read_text("primes.txt")).split())


async def main(boxes: int) -> None:
    counts = await asyncio.gather(*(work(part) for part in range(boxes)))
    for part, count in enumerate(counts):
        print(f"{part * 1000:6}: {count} primes")
    print(f"{sum(counts)} primes below {boxes * 1000}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 10))
