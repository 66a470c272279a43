"""Create, update and delete domains."""

import uuid
from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.utils import timezone

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError
from provisioning.identity.models import SHORT, Domain, Group, Project, Role, User
from provisioning.identity.records import owner_locks, project_resources
from provisioning.identity.roles.safeguards import keeping_an_administrator
from provisioning.identity.services.checks import (
    changed,
    check_name,
    check_text,
    checked,
    merged,
    one_of_its_name,
    refuse_immutable,
    store,
    undisturbed,
)
from provisioning.identity.tokens import announce

DEFAULT = "default"
"""The id of the domain that cannot be deleted."""


class DomainChanges(TypedDict, total=False):
    """The updatable fields; ``extra`` is merged, and None in it removes a field."""

    name: str
    description: str
    enabled: bool
    extra: dict[str, Any]


def ensure_domain(domain_id: str, name: str) -> Domain:
    """Return the domain with this id, created if missing."""
    return Domain.objects.get_or_create(id=domain_id, defaults={"name": name})[0]


def create_domain(
    name: str,
    *,
    domain_id: str | None = None,
    description: str = "",
    enabled: bool = True,
    extra: dict[str, Any] | None = None,
) -> Domain:
    """Create a domain.  Raises InvalidInputError for an invalid field, ConflictError if the name or id exists."""
    domain = Domain(
        id=domain_id or uuid.uuid4().hex,
        name=check_name(name, SHORT),
        description=check_text(description),
        enabled=enabled,
        extra=merged({}, extra),
        tokens_valid_after=timezone.now(),  # tokens of an earlier domain with this id may exist
    )
    if Domain.objects.filter(id=domain.id).exists():
        raise ConflictError(f"A domain with the id {domain.id} already exists.", field="id")
    with one_of_its_name(Domain, name=name):
        domain.save(force_insert=True)
    return domain


@when_broken_off
def update_domain(domain: Domain, **changes: Unpack[DomainChanges]) -> None:
    """Update a domain.  Raises the errors of ``create_domain`` and ``set_domain_enabled``."""
    refuse_immutable(domain, changes)
    with changed(domain, changes, checked(changes)):
        if "enabled" in changes:
            set_domain_enabled(domain, enabled=changes["enabled"])


@when_broken_off
@transaction.atomic
def set_domain_enabled(domain: Domain, *, enabled: bool) -> None:
    """Enable or disable a domain. Disabling invalidates the tokens of the domain's users, and all tokens for the domain
    or its projects.

    Running servers are not affected. Raises ForbiddenError if the cloud would lose its last administrator.
    """
    with keeping_an_administrator():
        if enabled:
            store(domain, {"enabled": True})
            return
        now = timezone.now()
        store(domain, {"enabled": False, "tokens_valid_after": now})
        User.objects.filter(domain=domain).update(tokens_valid_after=now)
        Project.objects.filter(domain=domain).update(tokens_valid_after=now)
    announce.revoked()


@when_broken_off
def delete_domain(domain: Domain) -> None:
    """Delete a domain with its users, groups, projects and roles.

    Raises ForbiddenError if it is enabled or the default domain.  Raises ConflictError if one of its projects has
    resources, or something is created in it concurrently.
    """
    refuse_immutable(domain)
    if domain.id == DEFAULT:
        raise ForbiddenError("The default domain cannot be deleted.")
    with undisturbed("domain"), keeping_an_administrator():
        row = Domain.objects.select_for_update().filter(id=domain.id).first()  # blocks new rows in the domain
        if row is None:
            raise NotFoundError(f"Could not find domain: {domain.id}.")
        if row.enabled:
            raise ForbiddenError("Cannot delete a domain that is enabled. Disable it first.")
        _empty(domain)
        Domain.objects.filter(id=domain.id).delete()
        announce.revoked()


def _empty(domain: Domain) -> None:
    users, projects = User.objects.filter(domain=domain), Project.objects.filter(domain=domain)
    project_ids = list(projects.values_list("id", flat=True))
    owner_locks.lock_rows(Project, project_ids)
    owner_locks.lock_rows(User, list(users.values_list("id", flat=True)))
    project_resources.refuse_owners(project_ids, f"A project in the domain {domain.name}")
    project_resources.remove_with_projects(project_ids)
    project_resources.remove_with_users(list(users.values_list("id", flat=True)))
    Group.objects.filter(domain=domain).delete()
    users.delete()
    projects.update(parent=None)  # so that they can be deleted in any order
    projects.delete()
    Role.objects.filter(domain=domain).delete()
