"""Property protections: additional properties that only some roles may create, read, update or delete.

``IMAGE_PROPERTY_PROTECTIONS`` names a TOML or ``.json`` file. It has a table for each pattern, a regular expression
that is searched in the property's name; the first match applies. Each table has ``create``, ``read``, ``update`` and
``delete``, each a list of roles; ``@`` means all users and ``!`` none. Properties without a matching pattern are denied
to all users. If the file is invalid, all properties are denied.
"""

import json
import logging
import os
import re
import threading
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError

OPERATIONS = ("create", "read", "update", "delete")
EVERYBODY, NOBODY = "@", "!"
LARGEST = 256 << 10
"""Maximum size of the file in bytes."""
AT_REST = 0.5
"""Seconds in which a second change of the file may leave its modification time unchanged, so that it is read again."""
logger = logging.getLogger(__name__)
_turn = threading.Lock()
_Mark = tuple[int, int, int] | None


class ProtectionFileError(Exception):
    """The file is invalid; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The roles, in lower case, that may carry out each operation on properties whose name matches the pattern."""

    pattern: re.Pattern[str]
    roles: Mapping[str, frozenset[str]]

    def allows(self, operation: str, roles: frozenset[str]) -> bool:
        """Return whether a user with these roles may carry out the operation."""
        requested = self.roles[operation]
        return NOBODY not in requested and (EVERYBODY in requested or not requested.isdisjoint(roles))


@dataclass(frozen=True, slots=True)
class _LoadedRules:
    """The rules that were read from one state of the file; empty if the file was invalid."""

    path: str
    mark: _Mark
    settled: bool
    rules: tuple[Rule, ...]


_known: _LoadedRules | None = None


def allows(context: RequestContext, name: str, operation: str) -> bool:
    """Return whether the caller may carry out the operation. The control plane itself (without a user) always may."""
    rules = _rules(context)
    return rules is None or _allowed(rules, _roles(context), name, operation)


def readable(context: RequestContext, properties: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the properties that the caller may read."""
    rules = _rules(context) if properties else None
    if rules is None:
        return dict(properties)
    roles = _roles(context)
    return {name: text for name, text in properties.items() if _allowed(rules, roles, name, "read")}


def check_change(context: RequestContext, before: Mapping[str, str | None], after: Mapping[str, str | None]) -> None:
    """Raise ForbiddenError if the caller may not create, update or delete one of the properties that differ."""
    rules = _rules(context)
    if rules is None:
        return
    roles = _roles(context)
    changes = {name: "delete" for name in before if name not in after}
    changes |= {name: "update" for name in after if name in before and before[name] != after[name]}
    changes |= {name: "create" for name in after if name not in before}
    for name, operation in sorted(changes.items()):
        if not _allowed(rules, roles, name, operation):
            raise ForbiddenError(f"Attribute '{name[:80]}' is reserved.", field=name[:80])


def read(path: Path) -> tuple[Rule, ...]:
    """Return the rules of a file in order. Raises ProtectionFileError."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ProtectionFileError("It is larger than 256 KiB.")
        text = content.decode()
        tables = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ProtectionFileError(f"It cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise ProtectionFileError(f"It is not {'JSON' if path.suffix == '.json' else 'TOML'}: {error}.") from error
    if not isinstance(tables, dict):
        raise ProtectionFileError("It must have one table for each pattern.")
    return tuple(_rule(pattern, table) for pattern, table in tables.items())


def _rule(pattern: str, table: Any) -> Rule:
    if not isinstance(table, dict) or set(table) != set(OPERATIONS):
        raise ProtectionFileError(f"[{pattern}] must have exactly the keys {', '.join(OPERATIONS)}.")
    for operation, roles in table.items():
        if not isinstance(roles, list) or not all(isinstance(role, str) and role for role in roles):
            raise ProtectionFileError(f"[{pattern}] {operation} must be a list of roles.")
        if EVERYBODY in roles and NOBODY in roles:
            raise ProtectionFileError(f"[{pattern}] {operation} contains both @ and !.")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ProtectionFileError(f"[{pattern}] is not a regular expression: {error}.") from error
    return Rule(compiled, {name: frozenset(role.lower() for role in roles) for name, roles in table.items()})


def _allowed(rules: tuple[Rule, ...], roles: frozenset[str], name: str, operation: str) -> bool:
    first = next((rule for rule in rules if rule.pattern.search(name)), None)
    return first is not None and first.allows(operation, roles)


def _roles(context: RequestContext) -> frozenset[str]:
    return frozenset(role.lower() for role in context.roles)


def _rules(context: RequestContext) -> tuple[Rule, ...] | None:
    """Return the rules of the file in its current state; None: no property is protected."""
    global _known
    path = str(settings.IMAGE_PROPERTY_PROTECTIONS)
    if not path or context.user_id is None:
        return None
    mark, known = _mark(path), _known
    if known is not None and known.settled and (known.path, known.mark) == (path, mark):
        return known.rules
    with _turn:
        logged = known is not None and (known.path, known.mark) == (path, mark)
        _known = _look(path, mark, logged=logged)
        return _known.rules


def _look(path: str, mark: _Mark, *, logged: bool) -> _LoadedRules:
    """Read the file. ``logged``: this state of the file was read before, so its error is already logged."""
    settled = mark is None or abs(time.time() - mark[0] / 1e9) > AT_REST
    try:
        return _LoadedRules(path, mark, settled, read(Path(path)))
    except ProtectionFileError as error:
        if not logged:
            logger.error("The property protections %s are invalid, all is denied: %s", path, error)  # noqa: TRY400
        return _LoadedRules(path, mark, settled, ())


def _mark(path: str) -> _Mark:
    """Return values that differ after each change of the file; None: the file is not accessible."""
    try:
        status = os.stat(path)  # noqa: PTH116 - half the cost of Path.stat
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)
