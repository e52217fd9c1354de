"""Addresses that only this machine reaches."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a listener at `host`, which may be an IPv4 address as IPv6 writes it, is reached from here alone."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
