"""How a bundle's Python finds the certificates of the image it runs in."""

from __future__ import annotations

from pathlib import Path

#: Distributions keep them in different places, and OpenSSL looks only where that of the build machine did.
_ADDITION = '''

# The runtime is put into images of any distribution. Each keeps its certificates elsewhere.
_KEPT_AT = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    os.path.join(os.path.dirname(__file__), "site-packages/pip/_vendor/certifi/cacert.pem"),
)


def _set_default_verify_paths(context):
    """Those that OpenSSL finds; those of the image, or our own; unless the environment names others."""
    _SSLContext.set_default_verify_paths(context)
    if "SSL_CERT_FILE" in os.environ or "SSL_CERT_DIR" in os.environ:
        return
    for path in _KEPT_AT:
        if os.path.exists(path):
            context.load_verify_locations(cafile=path)
            return


SSLContext.set_default_verify_paths = _set_default_verify_paths
'''


def extend(module: Path) -> None:
    """Let the standard library's `ssl` look there too."""
    text = module.read_text(encoding="utf-8")
    module.write_text(text + _ADDITION, encoding="utf-8")
