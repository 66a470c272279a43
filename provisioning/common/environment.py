"""Readers of settings: each reads a variable of the environment, validates it, and records its default and values.

Every app declares its settings in ``settings.py`` with these readers. docs/settings.md is generated from the records
and the docstrings.
"""

import ipaddress
import math
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

env = environ.Env()


class Declaration(NamedTuple):
    """The default of a setting and its possible values, as documented; empty: no default, any text."""

    default: str
    values: str


DECLARED: dict[str, Declaration] = {}
"""All settings by the names of their variables."""


def declare(name: str, default: str = "", values: str = "", *, shown: str = "") -> str:
    """Record a setting, and return its name. ``shown`` describes the default in the documentation if it is not a
    constant.
    """
    DECLARED.setdefault(name, Declaration(shown or (default and f"`{default}`"), values))
    return name


def _read(name: str, default: str = "", values: str = "", shown: str = "") -> str:
    result: str = env.str(declare(name, default, values, shown=shown), default=default)
    return result


def _read_list(name: str, default: list[str], values: str, shown: str = "") -> list[str]:
    entries: list[str] = env.list(declare(name, ",".join(default), values, shown=shown), default=default)
    return [each.strip() for each in entries]


def text(name: str, default: str, *, shown: str = "") -> str:
    return _read(name, default, shown=shown)


def names(name: str, default: list[str], *, shown: str = "") -> list[str]:
    """Read a list, separated by commas."""
    return _read_list(name, default, "a list", shown)


def flag(name: str, *, default: bool, shown: str = "") -> bool:
    result: bool = env.bool(declare(name, str(default).lower(), "true or false", shown=shown), default=default)
    return result


def folder(name: str, default: Path, *, shown: str) -> Path:
    """Read the path of a file or directory."""
    return Path(_read(name, str(default), "a path", shown))


def number(name: str, default: float) -> float:
    result: float = env.float(declare(name, str(default), "a number"), default=default)
    return result


def integer(name: str, default: int, low: int, high: int, *, shown: str = "") -> int:
    """Read a whole number within bounds; an invalid one stops the start with a message."""
    text = _read(name, str(default), f"{low} to {high}", shown)
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name} is {text!r}; it must be a whole number from {low} to {high}.")
    return value


def whole_range(name: str, default: tuple[int, int], low: int, high: int) -> tuple[int, int]:
    """Read the first and last number of a range, separated by a colon; an invalid one stops the start with a
    message.
    """
    value = _read(name, f"{default[0]}:{default[1]}", f"ranges in {low}:{high}")
    match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", value, re.ASCII)
    if match is None or not low <= int(match[1]) <= int(match[2]) <= high:
        raise ImproperlyConfigured(
            f"{name} is {value!r}; it must be a range from {low} to {high} such as {low}:{high}."
        )
    return int(match[1]), int(match[2])


def ipv4_range(name: str, default: str) -> str:
    """Read an IPv4 range from /8 to /29, such as 10.50.0.0/24; an invalid one stops the start with a message."""
    value = _read(name, default, "an IPv4 range from /8 to /29")
    try:
        network = ipaddress.IPv4Network(value)
    except ValueError:
        network = None
    if network is None or not 8 <= network.prefixlen <= 29:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be an IPv4 range from /8 to /29 such as {default}.")
    return str(network)


def decimal(name: str, *, shown: str = "") -> float | None:
    """Read a number from minus to plus a million, None if unset; an invalid one stops the start with a message."""
    text = _read(name, values="-1000000 to 1000000", shown=shown)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= 1_000_000:
        raise ImproperlyConfigured(f"{name} is {text!r}; it must be a number from -1000000 to 1000000.")
    return value


def chosen(name: str, known: tuple[str, ...], needed: tuple[str, ...] = ()) -> list[str]:
    """Read a list of values in ``known`` that contains all values in ``needed``; an invalid list stops the start with a
    message.
    """
    values = _read_list(name, list(known), f"some of {', '.join(known)}")
    if not set(needed) <= set(values) <= set(known):
        message = f"{name} is {','.join(values)!r}; it must be a comma-separated list of {', '.join(known)}"
        more = f", with {' and '.join(needed)} in it" if needed else ""
        raise ImproperlyConfigured(f"{message}{more}.")
    return values


def one_of(name: str, default: str, known: tuple[str, ...]) -> str:
    """Read one of several values; any other stops the start with a message."""
    value = _read(name, default, ", ".join(known))
    if value not in known:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be {' or '.join(known)}.")
    return value


def seconds_by_name(name: str, low: int, high: int) -> dict[str, int]:
    """Read seconds by name, ``rebuilding=900,deleting=60``; an invalid list stops the start with a message."""
    seconds: dict[str, int] = {}
    for each in _read_list(name, [], f"name=seconds, {low} to {high}"):
        key, _, value = (part.strip() for part in each.partition("="))
        if not key or not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
            message = f"{name} has {each!r}; it must be a comma-separated list of name=seconds ({low} to {high})."
            raise ImproperlyConfigured(message)
        seconds[key] = int(value)
    return seconds


def ports(name: str, default: list[str]) -> list[int]:
    """Read a list of ports; an invalid one stops the start with a message."""
    values = _read_list(name, default, "ports")
    if not all(each.isascii() and each.isdigit() and 0 < int(each) < 65_536 for each in values):
        raise ImproperlyConfigured(f"{name} is {','.join(values)!r}; it must be a comma-separated list of ports.")
    return [int(each) for each in values]


def networks(name: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Read a list of networks, ``10.0.0.0/8,fd00::/8``; an invalid one stops the start with a message."""
    values = _read_list(name, [], "networks")
    try:
        return [ipaddress.ip_network(each) for each in values]
    except ValueError as error:
        message = f"{name} is {','.join(values)!r}; it must be a comma-separated list of networks: {error}."
        raise ImproperlyConfigured(message) from None


def patterns(name: str, default: list[str]) -> list[str]:
    """Read a list of dotted names with ``*`` as wildcard and ``-`` for exclusion; an invalid one stops the start with a
    message.
    """
    values = _read_list(name, default, "event types")
    if not all(re.fullmatch(r"-?[a-z_.*]+", each) for each in values):
        message = f"{name} is {','.join(values)!r}; it must be all, none, or a list of names like instance.create.*."
        raise ImproperlyConfigured(message)
    return values


def rates(name: str, defaults: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Read limits such as ``launches=300/60``: number per seconds; 0 is unlimited, ``none`` means unlimited for all.

    Omitted limits have their defaults; an invalid list stops the start with a message.
    """
    shown = ",".join(f"{key}={most}/{seconds}" for key, (most, seconds) in defaults.items())
    entries = [each for each in _read_list(name, [], "none, or name=number/seconds", f"`{shown}`") if each]
    if entries == ["none"]:
        return {}
    result = dict(defaults)
    for each in entries:
        read = re.fullmatch(r"(\w+)=(\d{1,9})(?:/(\d{1,5}))?", each, re.ASCII)
        if read is None or read[1] not in defaults or (read[2] != "0" and not int(read[3] or 0)):
            message = (
                f"{name} is {','.join(entries)!r}; it must be none, or a comma-separated list of name=number/seconds"
                f" for {', '.join(defaults)}, like launches=300/60; 0 means unlimited."
            )
            raise ImproperlyConfigured(message)
        result[read[1]] = (int(read[2]), int(read[3] or 1))
    return result


def web_address(name: str, *, shown: str = "") -> str:
    """Read an http or https address without user name, or an empty one; an invalid one stops the start with a
    message.
    """
    value = _read(name, values="an http or https address", shown=shown).strip()
    try:
        parts = urlsplit(value)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
        good = good and parts.port != 0 and re.fullmatch(r"[!-~]+", value) is not None
    except ValueError:
        good = False
    if value and not good:
        message = f"{name} must be an address like https://example.org/hook, without a user name and a password."
        raise ImproperlyConfigured(message)
    return value
