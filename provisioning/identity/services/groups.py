"""Groups and their members."""

from typing import Any, TypedDict, Unpack

from django.db import IntegrityError, transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, NotFoundError
from provisioning.identity.models import SHORT, Domain, Group, GroupMembership, User
from provisioning.identity.roles.safeguards import keeping_an_administrator
from provisioning.identity.services.checks import (
    changed,
    check_name,
    check_text,
    checked,
    merged,
    one_of_its_name,
    undisturbed,
)
from provisioning.identity.tokens import announce


class GroupChanges(TypedDict, total=False):
    """The updatable fields; ``extra`` is merged, and None in it removes a field."""

    name: str
    description: str
    extra: dict[str, Any]


def create_group(domain: Domain, name: str, *, description: str = "", extra: dict[str, Any] | None = None) -> Group:
    """Create a group.  Raises InvalidInputError for an invalid field, ConflictError if the name exists."""
    group = Group(
        domain=domain, name=check_name(name, SHORT), description=check_text(description), extra=merged({}, extra)
    )
    with one_of_its_name(Group, domain=domain, name=name):
        group.save(force_insert=True)
    return group


@when_broken_off
def update_group(group: Group, **changes: Unpack[GroupChanges]) -> None:
    """Update a group.  Raises the errors of ``create_group``."""
    with changed(group, changes, checked(changes)):
        pass  # there is nothing else to update


@when_broken_off
def delete_group(group: Group) -> None:
    """Delete a group; its members lose the group's roles immediately.

    Raises ForbiddenError if the cloud would lose its last administrator, ConflictError if a user is added concurrently.
    """
    with undisturbed("group"), keeping_an_administrator():
        Group.objects.filter(id=group.id).delete()
        announce.revoked()


@when_broken_off
def add_to_group(group: Group, user: User) -> None:
    """Add a user to a group; an existing member is ignored.

    Raises ConflictError if the group or the user was deleted in the meantime.
    """
    try:
        with transaction.atomic():
            GroupMembership.objects.get_or_create(group=group, user=user)
    except IntegrityError as error:
        raise ConflictError("The group or the user was deleted in the meantime.") from error


@when_broken_off
@transaction.atomic
def remove_from_group(group: Group, user: User) -> None:
    """Remove a user from a group; the user loses the group's roles immediately.

    Raises NotFoundError if the user is not a member, ForbiddenError if the cloud would lose its last administrator.
    """
    with keeping_an_administrator():
        if not GroupMembership.objects.filter(group=group, user=user).delete()[0]:
            raise NotFoundError(f"User '{user.id.hex}' not found in group '{group.id.hex}'.")
    announce.revoked(user_id=user.id)
