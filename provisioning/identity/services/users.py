"""Users."""

from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.utils import timezone

from provisioning.common.retry import when_broken_off
from provisioning.identity import announce, owner_locks, project_resources
from provisioning.identity.last_admin import keeping_an_administrator
from provisioning.identity.models import LONG, Domain, Project, SignIn, User
from provisioning.identity.services.checks import (
    changed,
    check_text,
    checked,
    current,
    merged,
    one_of_its_name,
    store,
    undisturbed,
)
from provisioning.identity.services.passwords import give_password
from provisioning.identity.services.user_options import check_options

LONGEST_EMAIL = 254


class UserFields(TypedDict, total=False):
    """What a user has besides domain and name; in a change ``options`` and ``extra`` are merged, None takes away."""

    password: str | None
    email: str
    description: str
    enabled: bool
    default_project: Project | None
    options: dict[str, Any]
    extra: dict[str, Any] | None


class UserChanges(UserFields, total=False):
    """What may change."""

    name: str


def ensure_user(
    domain: Domain, name: str, *, password: str | None = None, default_project: Project | None = None
) -> User:
    """Return the user of this name in the domain, made if absent; without a password a new one cannot sign in.

    What exists already is left as it is, its password too.
    """
    known = User.objects.filter(domain=domain, name=name).first()
    if known is not None:
        return known
    return create_user(domain, name, password=password, default_project=default_project)


@when_broken_off
def create_user(domain: Domain, name: str, **fields: Unpack[UserFields]) -> User:
    """Make a user; without a password nobody can sign in as the user.

    InvalidInputError for a field that cannot be, ConflictError when the name is taken in the domain.
    """
    user = User(domain=domain, enabled=fields.get("enabled", True), **_columns({"name": name, **fields}))
    user.options, user.extra = check_options(fields.get("options") or {}), merged({}, fields.get("extra"))
    give_password(user, fields.get("password"), by_admin=True)
    with one_of_its_name(User, domain=domain, name=name):
        user.save(force_insert=True)
    return user


@when_broken_off
def update_user(user: User, **changes: Unpack[UserChanges]) -> None:
    """Change what is given; raises as ``create_user``, and ForbiddenError when it locks out the last administrator.

    A new password or a closed account ends every token of the user.
    """
    values = _columns(changes)
    if "options" in changes:
        user.options = check_options({**user.options, **changes["options"]})
    if "password" in changes:  # before the transaction: to hash takes time
        give_password(user, changes["password"], by_admin=True)
        values |= {name: getattr(user, name) for name in ("password", "password_expires_at", "tokens_valid_after")}
    with changed(user, changes, values):
        if "options" in changes:
            store(user, {"options": check_options({**current(user, "options"), **changes["options"]})})
        if "password" in changes:
            SignIn.objects.filter(user=user).delete()
            announce.revoked(user_id=user.id)
        if "enabled" in changes:
            set_user_enabled(user, enabled=changes["enabled"])


def _columns(fields: UserChanges) -> dict[str, Any]:
    """Return the columns among the fields, checked."""
    values = checked(fields, LONG)
    if "email" in fields:
        values["email"] = check_text(fields["email"], "email", LONGEST_EMAIL)
    if "default_project" in fields:
        values["default_project"] = fields["default_project"]
    return values


@when_broken_off
@transaction.atomic
def set_user_enabled(user: User, *, enabled: bool) -> None:
    """Let the user in, or lock the user out and void every token."""
    with keeping_an_administrator():
        store(user, {"enabled": enabled} if enabled else {"enabled": False, "tokens_valid_after": timezone.now()})
    if not enabled:
        announce.revoked(user_id=user.id)


@when_broken_off
@transaction.atomic
def revoke_all(user: User) -> None:
    """Void every token of the user: sign out everywhere."""
    store(user, {"tokens_valid_after": timezone.now()})
    announce.revoked(user_id=user.id)


@when_broken_off
def delete_user(user: User) -> None:
    """Remove the user; the tokens are worth nothing without it.  What the user made stays with the projects.

    ForbiddenError when it is the last administrator, ConflictError when somebody gives the user something meanwhile.
    """
    user_id = user.id
    with undisturbed("user"), keeping_an_administrator():
        owner_locks.lock_user(user_id)
        project_resources.remove_with_users([user_id])
        User.objects.filter(id=user_id).delete()
        announce.revoked(user_id=user_id)
