"""Parsing of a WebSocket's handshake: headers, cookies, query, and the origin."""

from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

Scope = Any
"""The ASGI scope of a connection."""


def header(scope: Scope, name: str) -> str:
    """The header's only value; empty if it is missing, repeated or not ASCII."""
    encoded = name.lower().encode()
    values: list[bytes] = [value for key, value in scope["headers"] if key.lower() == encoded]
    return str(values[0], "ascii", "replace").strip() if len(values) == 1 else ""


def cookies(scope: Scope) -> dict[str, str]:
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(header(scope, "cookie"))
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in jar.items()}


def parameter(scope: Scope, name: str) -> str:
    """A query parameter; empty if it is missing."""
    try:
        query = parse_qs(bytes(scope.get("query_string", b"")).decode(), max_num_fields=20)
    except ValueError:
        return ""
    return query.get(name, [""])[0]


def number(scope: Scope, name: str) -> int | None:
    """A query parameter with a whole number from 0; None for any other value."""
    text = parameter(scope, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def bearer(scope: Scope) -> str:
    """The credential of ``Authorization: Bearer``; empty if there is none."""
    kind, _, credential = header(scope, "authorization").partition(" ")
    return credential.strip() if kind.lower() == "bearer" else ""


def is_own_page(scope: Scope) -> bool:
    """Whether a page of this portal opened the socket. Browsers send cookies with requests of every page, so the origin
    is checked.

    The origin must be the request's host, if that is an allowed host, or an element of CSRF_TRUSTED_ORIGINS.
    """
    origin = header(scope, "origin")
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    host = header(scope, "host")
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    parts = urlsplit(origin)
    return parts.scheme in {"http", "https"} and parts.netloc.lower() == host.lower()
