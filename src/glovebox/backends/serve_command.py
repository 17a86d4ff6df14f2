"""The command line of the box that a spec describes."""

from __future__ import annotations

from glovebox.client.spec import BoxSpec


def serve_arguments(spec: BoxSpec, *, port: int, host: str, workspace: str) -> list[str]:
    """What follows `glovebox` on the command line: `serve`, the port and every flag, but no secret."""
    arguments = ["serve", str(port), "--host", host, "--working-dir", workspace]
    if spec.plugins:
        arguments += ["--plugins", *spec.plugins]
    if spec.user:
        arguments += ["--username", spec.user, "--user-id", str(spec.user_id)]
    arguments.append("--enable-browser" if spec.browser else "--no-enable-browser")
    return [*arguments, *spec.arguments]
