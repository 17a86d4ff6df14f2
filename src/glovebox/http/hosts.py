"""Reads the header `Host`, strictly: what is not plainly a name or an address is nobody's."""

from __future__ import annotations

import ipaddress
import re

#: A name or an IPv4 address, or an IPv6 address in brackets; then perhaps a port.
_AUTHORITY = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::[0-9]{0,5})?")


def host_name(authority: str) -> str | None:
    """The host of `host:port`, lower-cased and without a last dot; None if there is none."""
    found = _AUTHORITY.fullmatch(authority.lower())
    if found is None:
        return None
    if found["ipv6"]:
        return found["ipv6"] if is_address(found["ipv6"]) else None
    return found["name"].removesuffix(".") or None


def is_address(host: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
