"""A registry of images on loopback that an engine can pull from."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@contextlib.contextmanager
def registry(name: str, layer: bytes, architecture: str = "amd64") -> Iterator[str]:
    """A registry with one image of one layer, a tar; how an engine calls the image."""
    described = {"architecture": architecture, "os": "linux", "config": {}}
    described |= {"rootfs": {"type": "layers", "diff_ids": [_digest(layer)]}}
    config = json.dumps(described).encode()
    parts = {
        part: {"mediaType": f"application/vnd.docker.{kind}", "size": len(blob), "digest": _digest(blob)}
        for part, kind, blob in (
            ("config", "container.image.v1+json", config),
            ("layer", "image.rootfs.diff.tar", layer),
        )
    }
    manifest = json.dumps(
        {"schemaVersion": 2, "mediaType": MANIFEST, "config": parts["config"], "layers": [parts["layer"]]}
    ).encode()
    there = {
        "/v2/": b"{}",
        f"/v2/{name}/manifests/latest": manifest,
        f"/v2/{name}/manifests/{_digest(manifest)}": manifest,
        **{f"/v2/{name}/blobs/{_digest(blob)}": blob for blob in (config, layer)},
    }

    class Handler(BaseHTTPRequestHandler):
        """Answers as registries do."""

        def do_GET(self) -> None:
            content = there.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Type", MANIFEST if "/manifests/" in self.path else "application/json")
            self.send_header("Docker-Content-Digest", _digest(content or b""))
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content or b"")

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}/{name}:latest"
        finally:
            server.shutdown()
