"""Groups and who is in them."""

from typing import Any, TypedDict, Unpack

from django.db import IntegrityError, transaction

from provisioning.common.errors import ConflictError, NotFoundError
from provisioning.common.retry import when_broken_off
from provisioning.identity import announce
from provisioning.identity.last_admin import keeping_an_administrator
from provisioning.identity.models import SHORT, Domain, Group, GroupMembership, User
from provisioning.identity.services.checks import (
    changed,
    check_name,
    check_text,
    checked,
    merged,
    one_of_its_name,
    undisturbed,
)


class GroupChanges(TypedDict, total=False):
    """What may change; ``extra`` is merged, and None in it takes a name away."""

    name: str
    description: str
    extra: dict[str, Any]


def create_group(domain: Domain, name: str, *, description: str = "", extra: dict[str, Any] | None = None) -> Group:
    """Make a group; InvalidInputError for a field that cannot be, ConflictError when the name is taken."""
    group = Group(
        domain=domain, name=check_name(name, SHORT), description=check_text(description), extra=merged({}, extra)
    )
    with one_of_its_name(Group, domain=domain, name=name):
        group.save(force_insert=True)
    return group


@when_broken_off
def update_group(group: Group, **changes: Unpack[GroupChanges]) -> None:
    """Change what is given; raises as ``create_group``."""
    with changed(group, changes, checked(changes)):
        pass  # nothing else changes with it


@when_broken_off
def delete_group(group: Group) -> None:
    """Remove a group; what its members had by it ends now.

    ForbiddenError when the last administrator was in it, ConflictError when somebody is put in meanwhile.
    """
    with undisturbed("group"), keeping_an_administrator():
        Group.objects.filter(id=group.id).delete()
        announce.revoked()


@when_broken_off
def add_to_group(group: Group, user: User) -> None:
    """Put the user into the group, where the user may be already; ConflictError when one of them went meanwhile."""
    try:
        with transaction.atomic():
            GroupMembership.objects.get_or_create(group=group, user=user)
    except IntegrityError as error:
        raise ConflictError("The group or the user was removed at the same moment.") from error


@when_broken_off
@transaction.atomic
def remove_from_group(group: Group, user: User) -> None:
    """Take the user out of the group: what the user had by it ends now.

    NotFoundError when the user is not in it, ForbiddenError when it is the last administrator.
    """
    with keeping_an_administrator():
        if not GroupMembership.objects.filter(group=group, user=user).delete()[0]:
            raise NotFoundError(f"User '{user.id.hex}' not found in group '{group.id.hex}'.")
    announce.revoked(user_id=user.id)
