"""Trusts for their trustors and trustees."""

import uuid
from collections.abc import Iterable

from django.db.models import Q, QuerySet
from django.utils import timezone

from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Role, Trust


def trust_by(trust_id: str, *, used_up: bool = False) -> Trust | None:
    """Return the trust with this id if it can be used: None if it has expired or has no uses left, as in Keystone.

    ``used_up``: also if it has no uses left; tokens that were issued for it stay valid.
    """
    key = read_id(trust_id)
    found = Trust.objects.select_related("trustor__domain", "trustee__domain", "project__domain")
    found = found.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    if not used_up:
        found = found.filter(Q(remaining_uses=None) | Q(remaining_uses__gt=0))
    return found.filter(id=key).first() if key else None


def existing_trust(trust_id: str, *, used_up: bool = False) -> Trust:
    """As ``trust_by``, but raises NotFoundError instead of returning None."""
    found = trust_by(trust_id, used_up=used_up)
    if found is None:
        raise NotFoundError(f"Could not find trust: {trust_id[:64]}.")
    return found


def trust_of_token(trust_id: uuid.UUID) -> Trust:
    """Return the trust of a valid token, which may have no uses left; raises NotFoundError."""
    found = Trust.objects.filter(id=trust_id).first()
    if found is None:
        raise NotFoundError(f"Could not find trust: {trust_id.hex}.")
    return found


def trusts(*, trustor_id: str | None = None, trustee_id: str | None = None) -> list[Trust]:
    """Return the trusts of these users, or all, the oldest first, including trusts that can no longer be used."""
    found: QuerySet[Trust] = Trust.objects.order_by("created_at", "id")
    for name, text in (("trustor", trustor_id), ("trustee", trustee_id)):
        if text is not None:
            key = read_id(text)
            found = found.filter(**{name: key}) if key else found.none()
    return list(found)


def roles_of_trust(trust: Trust) -> list[Role]:
    """Return the existing roles of the trust, by name."""
    return list(Role.objects.filter(trustrole__trust=trust).order_by("name", "id"))


def roles_named(requested: Iterable[dict[str, str]]) -> list[Role]:
    """Return roles of any domain, each specified by ``id`` or ``name``, without duplicates.

    Raises NotFoundError, and InvalidInputError for an ambiguous name.
    """
    result: dict[object, Role] = {}
    for reference in requested:
        text = reference.get("id", reference.get("name", ""))
        column, value = ("id", read_id(text)) if "id" in reference else ("name", text if "\0" not in text else None)
        roles = list(Role.objects.filter(**{column: value})[:2]) if value is not None else []
        if not roles:
            raise NotFoundError(f"Could not find role: {text[:64]}.")
        if len(roles) > 1:
            raise InvalidInputError(f"There are multiple roles named {text[:64]!r}. Specify the id.", field="roles")
        result[roles[0].id] = roles[0]
    return list(result.values())
