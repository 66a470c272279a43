"""Users and their options, created singly or in bulk."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.utils import timezone

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.identity.models import LONG, Domain, Project, SignIn, User
from provisioning.identity.records import owner_locks, project_resources
from provisioning.identity.roles.safeguards import keeping_an_administrator
from provisioning.identity.services.checks import (
    changed,
    check_name,
    check_text,
    checked,
    current,
    merged,
    one_of_its_name,
    store,
    undisturbed,
)
from provisioning.identity.services.passwords import assign_password
from provisioning.identity.tokens import announce

LONGEST_EMAIL = 254
SWITCHES = (
    "ignore_change_password_upon_first_use",
    "ignore_password_expiry",
    "ignore_lockout_failure_attempts",
    "lock_password",
    "multi_factor_auth_enabled",
)
"""Options of users whose values are true or false."""
FACTORS = "multi_factor_auth_rules"
"""Lists of methods; a user must satisfy all methods of one of the lists."""
MOST_RULES, MOST_METHODS, LONGEST_METHOD = 32, 16, 64


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not None.  Raises InvalidInputError for an invalid one."""
    result = {name: value for name, value in options.items() if value is not None}
    for name, value in result.items():
        if name in SWITCHES:
            if not isinstance(value, bool):
                raise InvalidInputError(f"The option {name} must be true or false.", field=name)
        elif name == FACTORS:
            _check_factors(value)
        else:
            raise InvalidInputError(f"There is no option {name[:64]}.", field="options")
    return result


def _check_factors(rules: Any) -> None:
    right = isinstance(rules, list) and len(rules) <= MOST_RULES and all(_is_rule(rule) for rule in rules)
    if not right or len({tuple(rule) for rule in rules}) < len(rules):
        raise InvalidInputError(
            f"The option {FACTORS} must be a list of unique lists of unique method names.", field=FACTORS
        )


def _is_rule(rule: Any) -> bool:
    return (
        isinstance(rule, list)
        and 0 < len(rule) <= MOST_METHODS
        and all(isinstance(name, str) and 0 < len(name) <= LONGEST_METHOD and "\0" not in name for name in rule)
        and len(set(rule)) == len(rule)
    )


class UserFields(TypedDict, total=False):
    """The optional fields of a user; in updates, ``options`` and ``extra`` are merged, and None removes an entry."""

    password: str | None
    email: str
    description: str
    enabled: bool
    default_project: Project | None
    options: dict[str, Any]
    extra: dict[str, Any] | None


class UserChanges(UserFields, total=False):
    """The fields that ``update_user`` changes; missing ones keep their values."""

    name: str


def ensure_user(
    domain: Domain, name: str, *, password: str | None = None, default_project: Project | None = None
) -> User:
    """Return the user with this name in the domain, created if missing; without a password, a new user cannot log in.

    An existing user, including the password, is not changed.
    """
    known = User.objects.filter(domain=domain, name=name).first()
    if known is not None:
        return known
    return create_user(domain, name, password=password, default_project=default_project)


@when_broken_off
def create_user(domain: Domain, name: str, **fields: Unpack[UserFields]) -> User:
    """Create a user; without a password the user cannot log in.

    Raises InvalidInputError for an invalid field, ConflictError if the name exists in the domain.
    """
    user = User(domain=domain, enabled=fields.get("enabled", True), **_columns({"name": name, **fields}))
    user.options, user.extra = check_options(fields.get("options") or {}), merged({}, fields.get("extra"))
    assign_password(user, fields.get("password"), by_admin=True)
    with one_of_its_name(User, domain=domain, name=name):
        user.save(force_insert=True)
    return user


@when_broken_off
def update_user(user: User, **changes: Unpack[UserChanges]) -> None:
    """Update a user.  Raises the errors of ``create_user``, and ForbiddenError if the cloud would lose its last
    administrator.

    A new password, or disabling the user, invalidates all tokens of the user.
    """
    values = _columns(changes)
    if "options" in changes:
        user.options = check_options({**user.options, **changes["options"]})
    if "password" in changes:  # before the transaction, because hashing takes time
        assign_password(user, changes["password"], by_admin=True)
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
    """Return the validated columns of the fields."""
    values = checked(fields, LONG)
    if "email" in fields:
        values["email"] = check_text(fields["email"], "email", LONGEST_EMAIL)
    if "default_project" in fields:
        values["default_project"] = fields["default_project"]
    return values


@when_broken_off
@transaction.atomic
def set_user_enabled(user: User, *, enabled: bool) -> None:
    """Enable or disable the user. Disabling invalidates all tokens."""
    with keeping_an_administrator():
        store(user, {"enabled": enabled} if enabled else {"enabled": False, "tokens_valid_after": timezone.now()})
    if not enabled:
        announce.revoked(user_id=user.id)


@when_broken_off
@transaction.atomic
def revoke_all(user: User) -> None:
    """Invalidate all tokens of the user."""
    store(user, {"tokens_valid_after": timezone.now()})
    announce.revoked(user_id=user.id)


@when_broken_off
def delete_user(user: User) -> None:
    """Delete a user; the user's tokens become invalid.  Resources stay in their projects.

    Raises ForbiddenError if the cloud would lose its last administrator, ConflictError if something is assigned to the
    user concurrently.
    """
    user_id = user.id
    with undisturbed("user"), keeping_an_administrator():
        owner_locks.lock_user(user_id)
        project_resources.remove_with_users([user_id])
        User.objects.filter(id=user_id).delete()
        announce.revoked(user_id=user_id)


def prepare_user(domain: Domain, name: str, *, password: str | None, email: str = "") -> User:
    """Return an unsaved user with the hash of the password. Uses no database, so that threads can run it in parallel.

    Raises InvalidInputError for an invalid field.
    """
    user = User(domain=domain, name=check_name(name, LONG), email=check_text(email, "email", LONGEST_EMAIL))
    assign_password(user, password, by_admin=True)
    return user


def store_user(user: User, *, default_project: Project | None = None) -> None:
    """Save a prepared user.  Raises ConflictError if the name exists in the domain."""
    user.default_project = default_project
    with one_of_its_name(User, domain=user.domain, name=user.name):
        user.save(force_insert=True)
