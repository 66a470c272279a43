"""From the form's fields to an application credential's options."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import QueryDict
from django.utils import timezone

from provisioning.common.errors import InvalidInputError
from provisioning.identity.models import Role
from provisioning.identity.services import RequestPattern

EXPIRIES = (
    ("1", "in a day"),
    ("7", "in a week"),
    ("30", "in 30 days"),
    ("90", "in 90 days"),
    ("365", "in a year"),
    ("never", "never"),
    ("at", "at a time of your choice"),
)
USUAL_EXPIRY = "90"
LONGEST_TIME = 32
FIELDS = {"service": "access_rules", "method": "access_rules", "path": "access_rules"}
"""Where an error about a part is shown; the others have a field of their name."""
PLACES = ("name", "description", "roles", "expires_at", "access_rules")


@dataclass(frozen=True, slots=True)
class Values:
    """What stands in the form: text as it was typed."""

    name: str = ""
    description: str = ""
    roles: tuple[str, ...] = ()
    expiry: str = USUAL_EXPIRY
    expires_at: str = ""
    unrestricted: bool = False
    access_rules: str = ""

    @classmethod
    def of(cls, data: QueryDict) -> Values:
        """Read what was sent."""
        return cls(
            name=data.get("name", "").strip(),
            description=data.get("description", "").strip(),
            roles=tuple(data.getlist("roles")),
            expiry=data.get("expiry", USUAL_EXPIRY),
            expires_at=data.get("expires_at", "").strip(),
            unrestricted=bool(data.get("unrestricted")),
            access_rules=data.get("access_rules", ""),
        )

    @property
    def is_advanced(self) -> bool:
        """Whether something stands in the advanced part."""
        return self.unrestricted or bool(self.access_rules.strip())


def suggested(own: list[Role]) -> Values:
    """Return what the empty form has: every role but ``admin``, which a program seldom needs."""
    names = [role.name for role in own]
    return Values(roles=tuple(name for name in names if name != "admin") or tuple(names))


def options(values: Values, own: list[Role]) -> dict[str, Any]:
    """Return what the service takes; InvalidInputError names the field."""
    chosen = [role for role in own if role.name in values.roles]
    if not chosen:
        raise InvalidInputError("Choose at least one role.", field="roles")
    foreign = set(values.roles) - {role.name for role in own}
    if foreign:
        raise InvalidInputError("You do not have all of these roles in this project.", field="roles")
    return {
        "roles": chosen,
        "description": values.description,
        "expires_at": _expires_at(values),
        "unrestricted": values.unrestricted,
        "access_rules": _access_rules(values.access_rules),
    }


def place(field: str | None) -> str:
    """Return the field of the form at which an error of the service is shown."""
    found = FIELDS.get(field or "", field)
    return found if found in PLACES else "form"


def _expires_at(values: Values) -> datetime | None:
    if values.expiry == "never":
        return None
    if values.expiry != "at":
        if values.expiry not in dict(EXPIRIES):
            raise InvalidInputError("Choose when it expires.", field="expires_at")
        return timezone.now() + timedelta(days=int(values.expiry))
    try:
        moment = datetime.fromisoformat(values.expires_at[:LONGEST_TIME])
    except ValueError as error:
        raise InvalidInputError("Write date and time, such as 2030-12-31 18:00.", field="expires_at") from error
    if moment.tzinfo is not None:
        raise InvalidInputError("Write the time in UTC, without a time zone.", field="expires_at")
    return moment.replace(tzinfo=UTC)


def _access_rules(text: str) -> list[RequestPattern]:
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and len(words) != 3:
            raise InvalidInputError(f"Line {number} must have a service, a method and a path.", field="access_rules")
        if words:
            rules.append(RequestPattern(words[0], words[1].upper(), words[2]))
    return rules
