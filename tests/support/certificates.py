"""Certificates for tests of TLS, made with OpenSSL."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def make_authority(directory: Path) -> Path:
    """Who signs certificates."""
    _make(directory)
    return directory


def make_certificate(directory: Path, authority: Path) -> Path:
    """A key and a certificate of 127.0.0.1 that an authority has signed, under Docker's names for them."""
    signer = ("-CA", authority / "cert.pem", "-CAkey", authority / "key.pem")
    _make(
        directory, *signer, "-addext", "basicConstraints=CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1"
    )
    shutil.copy(authority / "cert.pem", directory / "ca.pem")
    return directory


def _make(directory: Path, *options: str | Path) -> None:
    directory.mkdir(parents=True)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", directory / "key.pem")
    certificate = ("-x509", "-days", "2", "-subj", f"/CN={directory.name}", "-out", directory / "cert.pem")
    subprocess.run(["openssl", "req", *key, *certificate, *options], check=True, capture_output=True)
