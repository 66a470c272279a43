"""Addresses that images may be downloaded from: never internal addresses of the cloud, even if a URL or DNS name points
to them.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from provisioning.images.errors import DownloadError, ImportUriError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
DEFAULT_PORTS = {"http": 80, "https": 443}
LONGEST = 2048
PLAIN = re.compile(r"[!-~]+", re.ASCII)
NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.ASCII)
NEVER = tuple(
    ipaddress.ip_network(text)
    for text in (
        "168.63.129.16/32",  # a metadata service of a cloud at a public address
        "192.88.99.0/24",  # relays into 6to4
        "64:ff9b::/96",  # IPv4 addresses embedded in IPv6: NAT64
        "64:ff9b:1::/48",
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4
        "fec0::/10",  # site-local
    )
)
"""Networks that are treated as internal although registries list them as global."""


@dataclass(frozen=True)
class WebAddress:
    """A parsed URL that passed the checks of its text; the host name has not been resolved."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query."""

    @property
    def authority(self) -> str:
        """Host and port as in a URL and in the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL for logs and messages, without the query, which may contain a secret."""
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"

    @property
    def url(self) -> str:
        """The complete URL, as a base for relative redirects."""
        return f"{self.scheme}://{self.authority}{self.target}"


def read_uri(uri: object) -> WebAddress:
    """Parse a URL and check all that needs no DNS lookup. Raises ImportUriError with the reason."""
    if not isinstance(uri, str) or not uri or len(uri) > LONGEST or not PLAIN.fullmatch(uri) or "\\" in uri:
        raise _refused("", f"it must be a URL of at most {LONGEST} ASCII characters without spaces")
    try:
        parts = urlsplit(uri)
        port, host = parts.port, (parts.hostname or "").lower().rstrip(".")
    except ValueError:
        raise _refused("", "it is not a URL") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise _refused("", "only http and https are allowed")
    if "@" in parts.netloc:
        raise _refused("", "a user name or password in the URL is not allowed")
    address = WebAddress(
        scheme=parts.scheme,
        host=host,
        port=DEFAULT_PORTS[parts.scheme] if port is None else port,
        target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
    )
    _check_host(address)
    return address


def resolve(address: WebAddress) -> list[Address]:
    """Resolve the host name once, and return the allowed addresses in the resolver's order.

    Raises ImportUriError if no address is allowed, DownloadError if the name does not resolve.
    """
    try:
        answers = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise DownloadError(f"The host of {address.shown} cannot be found.") from None
    allowed = [each for each in _addresses(answers) if is_allowed(each)]
    if not allowed:
        raise _refused(address.shown, "its host has an address inside this cloud or its network")
    return list(dict.fromkeys(allowed))


def is_allowed(address: Address) -> bool:
    """Return whether an address is public, or in a network that the operator allows."""
    if any(address in network for network in settings.IMPORT_ALLOWED_NETWORKS if network.version == address.version):
        return True
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_allowed(address.ipv4_mapped)
    if any(address in network for network in NEVER if network.version == address.version):
        return False
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not address.is_private
        and not address.is_link_local
        and not address.is_loopback
        and not address.is_unspecified
    )


def _check_host(address: WebAddress) -> None:
    if not NAME.fullmatch(address.host) and not _is_ipv6(address.host):
        raise _refused("", "its host is not a host name")
    shown = address.shown
    if address.port not in settings.IMPORT_ALLOWED_PORTS:
        ports = ", ".join(str(port) for port in settings.IMPORT_ALLOWED_PORTS)
        raise _refused(shown, f"only the ports {ports} are allowed")
    if settings.IMPORT_ALLOWED_HOSTS and not _is_listed(address.host, settings.IMPORT_ALLOWED_HOSTS):
        raise _refused(shown, "its host is not among the allowed hosts")
    if _is_listed(address.host, settings.IMPORT_DENIED_HOSTS):
        raise _refused(shown, "its host is not allowed")
    try:  # an address in any form that the resolver accepts: decimal, octal, hexadecimal, short
        literal = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return
    if not any(is_allowed(each) for each in _addresses(literal)):
        raise _refused(shown, "its host has an address inside this cloud or its network")


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _is_listed(host: str, names: Iterable[str]) -> bool:
    """Return whether the host is one of the names, or a subdomain of a name that begins with a dot."""
    return any(host.endswith(name) if name.startswith(".") else host == name for name in names)


def _addresses(answers: Iterable[tuple[object, ...]]) -> list[Address]:
    """Return the addresses of getaddrinfo's result, including link-local addresses with a scope."""
    return [ipaddress.ip_address(str(entry[4][0])) for entry in answers]  # type: ignore[index]


def _refused(shown: str, why: str) -> ImportUriError:
    msg = f"URI for web-download does not pass filtering: {shown or 'the given one'}: {why}."
    return ImportUriError(msg, field="uri")
