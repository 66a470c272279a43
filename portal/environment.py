"""Parsing of the environment: every kind of setting with a validation of its own."""

import ipaddress
import math
import re
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

env = environ.Env()

OF_ALL, LEAST, MOST = 48, 12, 24
"""Connections to PostgreSQL shared by the web processes of a machine, and the bounds for one process: half of the
hundred that the server allows by default.
"""


def integer(name: str, default: int, low: int, high: int) -> int:
    """Read a whole number within bounds; an invalid one stops the start with a message."""
    text = env.str(name, default=str(default))
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
    text = env.str(name, default=f"{default[0]}:{default[1]}")
    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text, re.ASCII)
    if found is None or not low <= int(found[1]) <= int(found[2]) <= high:
        raise ImproperlyConfigured(f"{name} is {text!r}; it must be a range from {low} to {high} such as {low}:{high}.")
    return int(found[1]), int(found[2])


def ipv4_range(name: str, default: str) -> str:
    """Read an IPv4 range from /8 to /29, such as 10.50.0.0/24; an invalid one stops the start with a message."""
    text = env.str(name, default=default)
    try:
        found = ipaddress.IPv4Network(text)
    except ValueError:
        found = None
    if found is None or not 8 <= found.prefixlen <= 29:
        raise ImproperlyConfigured(f"{name} is {text!r}; it must be an IPv4 range from /8 to /29 such as {default}.")
    return str(found)


def decimal(name: str) -> float | None:
    """Read a number from minus to plus a million, None if unset; an invalid one stops the start with a message."""
    text = env.str(name, default="")
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
    """Read a list of ``known`` values that contains the ``needed`` ones; an invalid one stops the start."""
    chosen: list[str] = env.list(name, default=list(known))
    if not set(needed) <= set(chosen) <= set(known):
        message = f"{name} is {','.join(chosen)!r}; it must be a list, with commas between, of {', '.join(known)}"
        more = f", with {' and '.join(needed)} in it" if needed else ""
        raise ImproperlyConfigured(f"{message}{more}.")
    return chosen


def one_of(name: str, default: str, known: tuple[str, ...]) -> str:
    """Read one of several values; any other stops the start with a message."""
    text: str = env.str(name, default=default)
    if text not in known:
        raise ImproperlyConfigured(f"{name} is {text!r}; it must be {' or '.join(known)}.")
    return text


def seconds_by_name(name: str, low: int, high: int) -> dict[str, int]:
    """Read seconds by name, ``rebuilding=900,deleting=60``; an invalid list stops the start with a message."""
    given: dict[str, int] = {}
    for text in env.list(name, default=[]):
        key, _, value = (part.strip() for part in text.partition("="))
        if not key or not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
            message = f"{name} has {text!r}; it must be a list, with commas between, of name=seconds ({low} to {high})."
            raise ImproperlyConfigured(message)
        given[key] = int(value)
    return given


def ports(name: str, default: list[str]) -> list[int]:
    """Read a list of ports; an invalid one stops the start with a message."""
    given: list[str] = env.list(name, default=default)
    if not all(text.isascii() and text.isdigit() and 0 < int(text) < 65_536 for text in given):
        raise ImproperlyConfigured(f"{name} is {','.join(given)!r}; it must be a list of ports, with commas between.")
    return [int(text) for text in given]


def networks(name: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Read a list of networks, ``10.0.0.0/8,fd00::/8``; an invalid one stops the start with a message."""
    given: list[str] = env.list(name, default=[])
    try:
        return [ipaddress.ip_network(text.strip()) for text in given]
    except ValueError as error:
        message = f"{name} is {','.join(given)!r}; it must be a list of networks, with commas between: {error}."
        raise ImproperlyConfigured(message) from None


def patterns(name: str, default: list[str]) -> list[str]:
    """Read a list of dotted names with ``*`` as wildcard and ``-`` for exclusion; an invalid one stops the start with a
    message.
    """
    given: list[str] = [text.strip() for text in env.list(name, default=default)]
    if not all(re.fullmatch(r"-?[a-z_.*]+", text) for text in given):
        message = f"{name} is {','.join(given)!r}; it must be all, none, or a list of names like instance.create.*."
        raise ImproperlyConfigured(message)
    return given


def rates(name: str, defaults: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Read limits such as ``launches=300/60``: number per seconds; 0 is unlimited, ``none`` means unlimited for all.

    Omitted limits have their defaults; an invalid list stops the start with a message.
    """
    given: list[str] = [text.strip() for text in env.list(name, default=[]) if text.strip()]
    if given == ["none"]:
        return {}
    found = dict(defaults)
    for text in given:
        read = re.fullmatch(r"(\w+)=(\d{1,9})(?:/(\d{1,5}))?", text, re.ASCII)
        if read is None or read[1] not in defaults or (read[2] != "0" and not int(read[3] or 0)):
            message = (
                f"{name} is {','.join(given)!r}; it must be none, or a list of numbers in so many seconds for"
                f" {', '.join(defaults)}, like launches=300/60; 0 is any number."
            )
            raise ImproperlyConfigured(message)
        found[read[1]] = (int(read[2]), int(read[3] or 1))
    return found


def web_address(name: str) -> str:
    """Read an http or https address without user name, or an empty one; an invalid one stops the start with a
    message.
    """
    given: str = env.str(name, default="").strip()
    try:
        parts = urlsplit(given)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
        good = good and parts.port != 0 and re.fullmatch(r"[!-~]+", given) is not None
    except ValueError:
        good = False
    if given and not good:
        message = f"{name} must be an address like https://example.org/hook, without a user name and a password."
        raise ImproperlyConfigured(message)
    return given


def secret_keys(name: str, path: Path) -> list[str]:
    """Read keys, of which the first signs and the others are still accepted.

    They come from ``name`` and ``name_FALLBACKS``, or from the lines of a file that is created on first use (mode
    0600).
    """
    given: str = env.str(name, default="")
    if given:
        return [given, *(key for key in env.list(f"{name}_FALLBACKS", default=[]) if key)]
    folder = path.parent
    if not path.exists():
        for each in (folder.parent.parent, folder.parent, folder):  # the mode applies only to the last directory
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = folder / f".{path.name}.{secrets.token_hex(4)}"
        temporary.touch(mode=0o600)
        temporary.write_text(secrets.token_urlsafe(48))
        try:
            path.hardlink_to(temporary)  # the first of several processes creates it
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    return path.read_text().split()


def add_secret_key(path: Path, keep: int) -> None:
    """Prepend a new key to the file, which then has at most ``keep`` keys; atomic."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fresh.touch(mode=0o600)
    fresh.write_text("\n".join([secrets.token_urlsafe(48), *path.read_text().split()][:keep]))
    fresh.replace(path)


def database(name: str, data: Path, role: str, patience: int, processes: int = 1) -> dict[str, Any]:
    """Read the URL of the database; without one it is SQLite in the data directory.

    ``role`` determines how connections are kept, ``patience`` is SQLite's lock timeout in seconds, ``processes`` the
    number of web processes that share PostgreSQL's connections.
    """
    url = env.str(name, default="")
    chosen = env.str("NOVELLA_SQLITE_SYNCHRONOUS", default="").upper()
    if chosen not in {"", "FULL", "NORMAL"}:
        raise ImproperlyConfigured(f"NOVELLA_SQLITE_SYNCHRONOUS is {chosen!r}; it must be FULL or NORMAL.")
    if not url:
        return {
            "ENGINE": "provisioning.common.sqlite",
            "NAME": str(data / "db.sqlite3"),
            "CONN_MAX_AGE": None,
            "SYNCHRONOUS_BY_HOSTS": not chosen,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": patience,
                "init_command": f"PRAGMA journal_mode=WAL; PRAGMA synchronous={chosen or 'NORMAL'};"
                " PRAGMA journal_size_limit=27103364; PRAGMA cache_size=2000; PRAGMA mmap_size=268435456;"
                " PRAGMA secure_delete=ON",
            },
            "TEST": {"NAME": str(data / "test.sqlite3")},
        }
    found: dict[str, Any] = env.db_url_config(url)
    if found["ENGINE"] == "django.db.backends.postgresql":
        found["ENGINE"] = "provisioning.common.postgresql"
    if role == "web":
        most = integer("NOVELLA_DATABASE_POOL", min(max(OF_ALL // processes, LEAST), MOST), 8, 1000)
        found.setdefault("OPTIONS", {})["pool"] = {"min_size": 1, "max_size": most}
        found["CONN_MAX_AGE"] = 0
    else:
        found["CONN_MAX_AGE"] = 600
        found["CONN_HEALTH_CHECKS"] = True
    return found
