"""A web server in a box, and its address on this machine.

python examples/dev_server.py [PORT]
"""

import sys
import urllib.request

from glovebox import Box


def main(port: int) -> None:
    with Box(ports=[port]) as box:
        box.files.write("site/index.html", "<h1>Hello from the box</h1>\n")
        with box.start(f"cd site && exec python3 -m http.server {port}") as server:
            server.wait_for_port(port)
            print(f"open {box.url(port)}")
            with urllib.request.urlopen(box.url(port)) as answer:
                print(answer.read().decode())
            print(server.output())
    # The server ended with its block, the box with its own.


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3000)
