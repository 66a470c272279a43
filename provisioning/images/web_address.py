"""Which addresses an image may be fetched from: never the cloud's own inside, whatever a URL or a name says."""

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
        "168.63.129.16/32",  # a cloud's own service at a public address
        "192.88.99.0/24",  # relays into 6to4
        "64:ff9b::/96",  # IPv4 addresses in other words: NAT64
        "64:ff9b:1::/48",
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4
        "fec0::/10",  # site-local
    )
)
"""Networks that count as internal although registries call them global."""


@dataclass(frozen=True)
class WebAddress:
    """A URL taken apart and allowed as far as it says itself; the name has not been looked up."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query."""

    @property
    def authority(self) -> str:
        """Host and port as in a URL and in the header ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL for logs and messages: the query may hold a secret."""
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"

    @property
    def url(self) -> str:
        """The whole URL, for redirects that are relative to it."""
        return f"{self.scheme}://{self.authority}{self.target}"


def read_uri(uri: object) -> WebAddress:
    """Take a URL apart and check everything that needs no lookup; ImportUriError says what is wrong with it."""
    if not isinstance(uri, str) or not uri or len(uri) > LONGEST or not PLAIN.fullmatch(uri) or "\\" in uri:
        raise _refused("", f"it must be a URL of at most {LONGEST} ASCII characters without spaces")
    try:
        parts = urlsplit(uri)
        port, host = parts.port, (parts.hostname or "").lower().rstrip(".")
    except ValueError:
        raise _refused("", "it is no URL") from None
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
    """Look the name up, once, and return the addresses that may be connected to, in the resolver's order.

    Raises ImportUriError when there are none of these, DownloadError when there are none at all.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise DownloadError(f"The host of {address.shown} cannot be found.") from None
    allowed = [each for each in _addresses(found) if is_allowed(each)]
    if not allowed:
        raise _refused(address.shown, "its host has an address inside this cloud or its network")
    return list(dict.fromkeys(allowed))


def is_allowed(address: Address) -> bool:
    """Whether it is one of the public internet, or of a network that the operator allows."""
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
        raise _refused("", "its host is no host name")
    shown = address.shown
    if address.port not in settings.IMPORT_ALLOWED_PORTS:
        ports = ", ".join(str(port) for port in settings.IMPORT_ALLOWED_PORTS)
        raise _refused(shown, f"only the ports {ports} are allowed")
    if settings.IMPORT_ALLOWED_HOSTS and not _is_listed(address.host, settings.IMPORT_ALLOWED_HOSTS):
        raise _refused(shown, "its host is not one of those that are allowed")
    if _is_listed(address.host, settings.IMPORT_DENIED_HOSTS):
        raise _refused(shown, "its host is not allowed")
    try:  # an address in any of the forms that the resolver takes for one: decimal, octal, hexadecimal, short
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
    """Whether the host is one of the names, or below one that begins with a dot."""
    return any(host.endswith(name) if name.startswith(".") else host == name for name in names)


def _addresses(found: Iterable[tuple[object, ...]]) -> list[Address]:
    """Read getaddrinfo's answer; an address with a scope is a link's."""
    return [ipaddress.ip_address(str(entry[4][0])) for entry in found]  # type: ignore[index]


def _refused(shown: str, why: str) -> ImportUriError:
    msg = f"URI for web-download does not pass filtering: {shown or 'the given one'}: {why}."
    return ImportUriError(msg, field="uri")
