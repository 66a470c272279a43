"""Names of servers and of resources derived from them: validation, host names, numbered names."""

import re
import unicodedata
import uuid

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.text import has_control_characters

SERVER_NAME = "{name}"
"""Text in the name of a disk that is replaced by the name of its server."""
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.IGNORECASE)
_NOT_IN_LABEL = re.compile(r"[^a-z0-9-]+")


def check_text(value: str, what: str, *, longest: int = 255, shortest: int = 0) -> str:
    """Return the stripped text. Raises InvalidInputError with ``what`` as the field for a wrong length or control
    characters.
    """
    text = value.strip()
    if len(text) < shortest:
        raise InvalidInputError(f"Invalid input for {what}: it must not be empty.", field=what)
    if len(text) > longest:
        raise InvalidInputError(
            f"Invalid input for {what}: it has {len(text)} characters; at most {longest} are allowed.", field=what
        )
    if has_control_characters(text):
        raise InvalidInputError(
            f"Invalid input for {what}: control characters and line breaks are not allowed.", field=what
        )
    return text


def check_name(value: str) -> str:
    """Return a valid server name, 1 to 255 printable characters."""
    return check_text(value, "name", shortest=1)


def check_hostname(value: str) -> str:
    """Return a valid host name: labels of RFC 1123 with at most 63 characters, joined by dots."""
    if len(value) > 255 or not all(_LABEL.fullmatch(label) for label in value.split(".")):
        raise InvalidInputError(
            f"Invalid input for hostname: {value[:64]!r} is not a host name. Use up to 63 letters, digits and hyphens"
            " in each part, with a letter or digit at both ends.",
            field="hostname",
        )
    return value


def hostname_for(name: str, instance_id: uuid.UUID) -> str:
    """Derive a host name from a display name as Nova does (nova.utils.sanitize_hostname): never empty, never only
    digits.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    label = _NOT_IN_LABEL.sub("", re.sub(r"[ _.]+", "-", plain)).strip("-")[:63].strip("-")
    return f"server-{instance_id}" if not label or label.isdigit() else label


def numbered(name: str, index: int, count: int, *, longest: int = 255, placeholder: str = "") -> str:
    """Return the name of one of several servers: ``name-1``, ``name-2`` …; a single server keeps ``name``.

    A ``placeholder`` in the name is replaced by the number instead, also for a single server.
    """
    if placeholder and placeholder in name:
        return name.replace(placeholder, str(index + 1))[:longest]
    if count == 1:
        return name
    suffix = f"-{index + 1}"
    return name[: longest - len(suffix)] + suffix


def disk_name(requested: str, server: str, index: int, count: int, *, placeholder: str = "") -> str:
    """Return the name of a new disk of one of several servers; empty if no name was requested.

    ``{name}`` in the requested name is replaced by the server's name, and ``placeholder`` by the number. A name without
    ``{name}`` is numbered like names of servers.
    """
    if SERVER_NAME not in requested:
        return numbered(requested, index, count, placeholder=placeholder) if requested else ""
    pattern = requested.replace(placeholder, str(index + 1)) if placeholder else requested
    return pattern.replace(SERVER_NAME, server[: 255 - len(pattern) + len(SERVER_NAME)])[:255]


def numbered_host(hostname: str, index: int, count: int) -> str:
    """Return the host name of one of several servers; the number is added to the first label."""
    label, dot, domain = hostname.partition(".")
    return numbered(label, index, count, longest=63) + dot + domain


def key_pair_owner(user_id: uuid.UUID, name: str) -> uuid.UUID:
    """Return the id under which a key pair's quota is recorded, derived from its owner and name."""
    return uuid.uuid5(user_id, name)
