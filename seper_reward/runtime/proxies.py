"""Proxies that the environment names, which HTTP clients go through."""

import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def is_this_machine(url: str) -> bool:
    """Return whether a URL is of this machine, which no proxy reaches.

    >>> [is_this_machine(url) for url in ("http://localhost:8100", "http://[::1]:8100", "http://scorer:8100")]
    [True, True, False]
    """
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def proxy_of(url: str) -> str:
    """Return the proxy for a URL by HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, without a password; "" for none.

    A URL of this machine has none.
    """
    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_this_machine(url) or proxy_bypass(parts.hostname or ""):
        return ""
    return proxy.rpartition("@")[2] if "@" in proxy else proxy
