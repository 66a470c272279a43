"""Roles and implied roles."""

from typing import Any

from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError
from provisioning.identity.models import LONG, Domain, ImpliedRole, Role, RoleAssignment
from provisioning.identity.records.conflicts import conflict_as
from provisioning.identity.roles import safeguards
from provisioning.identity.roles.safeguards import keeping_an_administrator
from provisioning.identity.services.checks import check_name, undisturbed
from provisioning.identity.tokens import announce

BUILT_IN = ("admin", "manager", "member", "reader", "service")
"""The global roles that policy rules refer to; they cannot be changed or deleted."""
DEFAULT_IMPLICATIONS = (("admin", "manager"), ("manager", "member"), ("member", "reader"))
"""As in Keystone; ``service`` has no implications."""
BEFORE_MANAGER = ("admin", "member")
"""An implication that is deleted when the role ``manager`` connects the two roles."""
NEVER_IMPLIED = "admin"


def ensure_role(name: str, *, description: str = "") -> Role:
    """Return the role with this name, created if missing; a built-in role with its default implications.

    An existing role with a built-in name also becomes built-in. Implications that are deleted later are not created
    again.
    """
    options = {"immutable": True} if name in BUILT_IN else {}
    role, made = Role.objects.get_or_create(
        name=name, domain=None, defaults={"description": description, "options": options}
    )
    if name in BUILT_IN and (made or not role.options.get("immutable")):
        role.options = {**role.options, "immutable": True}
        role.save(update_fields=["options"])
        _imply_by_default(role)
    return role


@transaction.atomic
def _imply_by_default(role: Role) -> None:
    """Create the default implications of and to the role, except where they would close a cycle."""
    safeguards.lock_changes()
    known = {each.name: each for each in Role.objects.filter(name__in=BUILT_IN, domain=None)}
    for prior, implied in DEFAULT_IMPLICATIONS:
        if role.name in {prior, implied} <= known.keys() and known[prior].id not in _closure(known[implied]):
            ImpliedRole.objects.get_or_create(prior=known[prior], implied=known[implied])
    above, below = (known.get(name) for name in BEFORE_MANAGER)
    if role.name == "manager" and above and below and below.id in _closure(role):
        ImpliedRole.objects.filter(prior=above, implied=below).delete()
    if RoleAssignment.objects.exists():
        announce.revoked()


def is_built_in(role: Role) -> bool:
    """Return whether the policy rules refer to this role."""
    return role.domain_id is None and role.name in BUILT_IN


def is_immutable(role: Role) -> bool:
    """Return whether the role can be neither changed nor deleted."""
    return is_built_in(role) or role.options.get("immutable") is True


def create_role(
    name: str,
    *,
    domain: Domain | None = None,
    description: str = "",
    options: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
) -> Role:
    """Create a role, global or in a domain.

    ``options``: ``immutable``, True or False. Raises InvalidInputError for an invalid name, ConflictError if the name
    exists there, or differs from that of a built-in role only in case.
    """
    _check_name(name, domain)
    role = Role(name=name, domain=domain, description=description, options=_without_none(options), extra=extra or {})
    with conflict_as(_taken(name), field="name"):
        role.save(force_insert=True)
    return role


def update_role(role: Role, **changes: Any) -> Role:
    """Update ``name``, ``description``, ``options`` (merged; None removes one) or ``extra`` (merged) of a role.

    Raises ForbiddenError for an immutable role, unless the change only removes that option; a built-in role stays
    immutable.
    """
    unknown = changes.keys() - {"name", "description", "options", "extra"}
    if unknown:
        raise TypeError(f"A role has no updatable field {', '.join(sorted(unknown))}.")
    ends_it = changes.keys() == {"options"} and not (changes["options"] or {}).get("immutable", True)
    if is_immutable(role) and (is_built_in(role) or not ends_it):
        raise ForbiddenError(_immutable(role))
    if "name" in changes:
        _check_name(changes["name"], role.domain_id)
    renamed = changes.get("name", role.name) != role.name
    for column in ("options", "extra"):
        if column in changes:
            changes[column] = _without_none({**getattr(role, column), **(changes[column] or {})})
    for column, value in changes.items():
        setattr(role, column, value)
    with conflict_as(_taken(role.name), field="name"):
        role.save(update_fields=list(changes))
        if renamed:  # rules refer to names
            announce.revoked()
    return role


@when_broken_off
def delete_role(role: Role) -> None:
    """Delete a role with all its assignments; it is removed from application credentials.

    Raises ForbiddenError for an immutable role, or if the cloud would lose its last administrator.
    """
    if is_immutable(role):
        raise ForbiddenError(_immutable(role))
    with undisturbed("role"), keeping_an_administrator():
        Role.objects.filter(id=role.id).delete()
        announce.revoked()


@when_broken_off
def imply(prior: Role, implied: Role) -> None:
    """Make ``prior`` imply ``implied``.

    A domain-specific role may also imply roles of other domains. Raises ForbiddenError if ``implied`` is ``admin``,
    implies ``prior`` itself, or is domain-specific while ``prior`` is global.  Raises ConflictError if the implication
    exists.
    """
    if implied.domain_id is None and implied.name.lower() == NEVER_IMPLIED:
        raise ForbiddenError(f"The role {implied.name} cannot be an implied role.")
    if prior.domain_id is None and implied.domain_id is not None:
        raise ForbiddenError("Global role cannot imply a domain-specific role.")
    with conflict_as(f"The role {prior.name} already implies {implied.name}."):
        safeguards.lock_changes()  # two concurrent changes could close a cycle
        if prior.id in _closure(implied):
            raise ForbiddenError(
                f"The role {implied.name} implies {prior.name}: the opposite implication is not allowed."
            )
        ImpliedRole.objects.create(prior=prior, implied=implied)


@when_broken_off
@transaction.atomic
def unimply(prior: Role, implied: Role) -> None:
    """Delete the implication; takes effect immediately.  Raises NotFoundError if it does not exist."""
    with keeping_an_administrator():
        if not ImpliedRole.objects.filter(prior=prior, implied=implied).delete()[0]:
            raise NotFoundError(f"{prior.id.hex} does not imply {implied.id.hex}.")
        announce.revoked()


def _closure(role: Role) -> set[Any]:
    below: dict[Any, list[Any]] = {}
    for prior, implied in ImpliedRole.objects.values_list("prior_id", "implied_id"):
        below.setdefault(prior, []).append(implied)
    result, new = {role.id}, [role.id]
    while new:
        following = {each for one in new for each in below.get(one, ())} - result
        result |= following
        new = list(following)
    return result


def _check_name(name: str, domain: Domain | str | None) -> None:
    """Raise InvalidInputError for an invalid name, and ConflictError for a global role whose name differs from a
    built-in role only in case: policy rules ignore case.
    """
    if domain is None and name.lower() in BUILT_IN and name not in BUILT_IN:
        raise ConflictError(
            f"Policy rules cannot distinguish {name} from the role {name.lower()}. Choose another name.", field="name"
        )
    check_name(name, LONG)


def _without_none(values: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (values or {}).items() if value is not None}


def _taken(name: str) -> str:
    return f"A role with the name {name[:64]} already exists. Choose another name."


def _immutable(role: Role) -> str:
    return f"Cannot modify or delete immutable resource: role {role.name}."
