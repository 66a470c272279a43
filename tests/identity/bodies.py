"""Bodies of ``POST /v3/auth/tokens``."""

from __future__ import annotations

from typing import Any

from tests.support.cast import PASSWORD, Person

TOKENS = "/identity/v3/auth/tokens"


def by_password(person: Person, scope: Any = None, *, password: str = PASSWORD, by: str = "name") -> dict[str, Any]:
    """The person's password, the user given by ``name`` or by ``id``."""
    user: dict[str, Any] = {"password": password}
    if by == "id":
        user["id"] = person.user.id.hex
    else:
        user |= {"name": person.user.name, "domain": {"name": "Default"}}
    return _auth({"methods": ["password"], "password": {"user": user}}, scope)


def by_token(value: str, scope: Any = None) -> dict[str, Any]:
    return _auth({"methods": ["token"], "token": {"id": value}}, scope)


def in_project(person: Person, by: str = "id") -> dict[str, Any]:
    """The scope of the person's project."""
    if by == "id":
        return {"project": {"id": person.project.id.hex}}
    return {"project": {"name": person.project.name, "domain": {"id": "default"}}}


def _auth(identity: dict[str, Any], scope: Any) -> dict[str, Any]:
    auth: dict[str, Any] = {"identity": identity}
    if scope is not None:
        auth["scope"] = scope
    return {"auth": auth}
