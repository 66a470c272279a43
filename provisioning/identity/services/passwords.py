"""Verification and changes of passwords."""

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.utils import timezone

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError, NotAuthenticatedError
from provisioning.identity.errors import REFUSED, PasswordExpiredError
from provisioning.identity.lockout import lockout, throttle
from provisioning.identity.models import SignIn, User
from provisioning.identity.selectors.lookups import record_by
from provisioning.identity.tokens import announce

LONGEST_PASSWORD = 1024
"""Maximum length of a password."""


def authenticate_password(
    *,
    user_id: str | None = None,
    user_name: str | None = None,
    domain_id: str | None = None,
    domain_name: str | None = None,
    password: str,
    source: str,
    even_expired: bool = False,
) -> User:
    """Return the user with this password, given by id, or by name and domain; ``source`` is the client's address.

    An unknown name, a wrong password, a locked account and a disabled user raise the same NotAuthenticatedError after
    the same work. A correct but expired password raises PasswordExpiredError, unless ``even_expired``. Raises
    TooManyAttemptsError while the client must wait.
    """
    throttle.check_address(source)
    typed = typed_name(user_id, user_name, domain_id, domain_name)
    user: User | None = None
    if "\0" not in typed:  # PostgreSQL rejects it in queries
        user = record_by(User, record_id=user_id, name=user_name, domain_id=domain_id, domain_name=domain_name)
    with throttle.Attempt(typed, source, lockout.account_of(user, typed)) as attempt:
        right = _is_right(user, password)
        if user is None or not right or attempt.is_locked() or not (user.enabled and user.domain.enabled):
            raise NotAuthenticatedError(REFUSED)
        attempt.succeeded()
    if not even_expired and has_expired(user):
        raise PasswordExpiredError(user.id)
    return user


def _is_right(user: User | None, password: str) -> bool:
    """Verify the password; takes the same work for an unknown user."""
    if user is None or not user.has_usable_password():
        make_password(password[:LONGEST_PASSWORD])
        return False
    return user.check_password(password[:LONGEST_PASSWORD]) and len(password) <= LONGEST_PASSWORD


def typed_name(user_id: str | None, user_name: str | None, domain_id: str | None, domain_name: str | None) -> str:
    """Return the key under which sign-in attempts with this id or name are counted; the user need not exist."""
    if user_id is not None:
        return f"id {user_id.replace('-', '').lower()}"
    return f"name {(user_name or '').casefold()} in {(domain_id or domain_name or '').casefold()}"


def has_expired(user: User) -> bool:
    """Return whether the user's password has expired and must be changed."""
    if user.password_expires_at is None or user.options.get("ignore_password_expiry") is True:
        return False
    return user.password_expires_at <= timezone.now()


@when_broken_off
@transaction.atomic
def set_password(user: User, password: str | None, *, by_admin: bool = False) -> None:
    """Set the password and end all sessions and tokens of the user.  Raises InvalidInputError if it violates the rules.

    ``by_admin``: another user chose it, so it may have to be changed at the first use. None: no password is valid.
    """
    assign_password(user, password, by_admin=by_admin)
    user.save(update_fields=["password", "password_expires_at", "tokens_valid_after"])
    SignIn.objects.filter(user=user).delete()
    announce.revoked(user_id=user.id)


def assign_password(user: User, password: str | None, *, by_admin: bool) -> None:
    """Set the password as ``set_password`` does, but only on the object: the user is being created, and the caller
    saves it.
    """
    check_new_password(password)
    user.set_password(password)
    user.password_expires_at = None if password is None else _expiry(user, by_admin=by_admin)


def _expiry(user: User, *, by_admin: bool) -> datetime | None:
    """Return the expiry of a new password: immediately, after the configured days, or None."""
    now = timezone.now()
    first_use = settings.PASSWORD_CHANGE_ON_FIRST_USE and by_admin
    if first_use and user.options.get("ignore_change_password_upon_first_use") is not True:
        return now
    return now + timedelta(days=settings.PASSWORD_EXPIRES_DAYS) if settings.PASSWORD_EXPIRES_DAYS else None


def change_password(
    user_id: uuid.UUID | str | None,
    original: str,
    password: str,
    *,
    source: str,
    user_name: str | None = None,
    domain_id: str | None = None,
    domain_name: str | None = None,
) -> User:
    """Change a user's own password, also an expired one, and return the user; all tokens of the user become invalid.

    The user is given by id, or by name and domain. Raises NotAuthenticatedError if ``original`` is wrong,
    InvalidInputError if the new one violates the rules or the user may not change it (option ``lock_password``).
    """
    check_new_password(password)
    user = authenticate_password(
        user_id=None if user_id is None else str(user_id),
        user_name=user_name,
        domain_id=domain_id,
        domain_name=domain_name,
        password=original,
        source=source,
        even_expired=True,
    )
    if user.options.get("lock_password") is True:
        raise InvalidInputError("You may not change this password yourself. Ask an administrator.", field="password")
    if password == original and has_expired(user):
        raise InvalidInputError("Choose a password that differs from the current one.", field="password")
    set_password(user, password)
    return user


def check_new_password(password: str | None) -> None:
    """Raise InvalidInputError for an invalid password."""
    if password is None:
        return
    if not password:
        raise InvalidInputError("The password must not be empty.", field="password")
    least = settings.PASSWORD_MIN_LENGTH
    if len(password) < least:
        raise InvalidInputError(f"The password must have at least {least} characters.", field="password")
    if len(password) > LONGEST_PASSWORD:
        raise InvalidInputError(f"The password must have at most {LONGEST_PASSWORD} characters.", field="password")
