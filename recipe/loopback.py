"""Addresses that only this machine reaches."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a listener at `host` is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
