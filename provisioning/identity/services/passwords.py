"""Passwords: proving one, setting one."""

from __future__ import annotations

import uuid

from django.contrib.auth.hashers import make_password
from django.db import transaction

from provisioning.common.errors import InvalidInputError, NotAuthenticatedError
from provisioning.identity import announce, selectors
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import User
from provisioning.identity.throttle import Attempt

LONGEST_PASSWORD = 1024
"""Characters."""


def authenticate_password(
    *,
    user_id: str | None = None,
    user_name: str | None = None,
    domain_id: str | None = None,
    domain_name: str | None = None,
    password: str,
    source: str,
) -> User:
    """Return the user whose password this is, given by id, or by name and domain; ``source`` is the caller's address.

    An unknown name, a wrong password and a disabled user give the same NotAuthenticatedError after the same work;
    TooManyAttemptsError while the caller has to wait.
    """
    typed = _typed_name(user_id, user_name, domain_id, domain_name)
    attempt = Attempt(typed, source)
    user: User | None = None
    if "\0" not in typed:  # PostgreSQL refuses to look for it
        user = selectors.user_by(user_id=user_id, name=user_name, domain_id=domain_id, domain_name=domain_name)
    if user is None or not user.has_usable_password():
        make_password(password[:LONGEST_PASSWORD])
        right = False
    else:
        right = user.check_password(password[:LONGEST_PASSWORD]) and len(password) <= LONGEST_PASSWORD
    if user is None or not right or not (user.enabled and user.domain.enabled):
        attempt.failed()
        raise NotAuthenticatedError(REFUSED)
    attempt.succeeded()
    return user


def _typed_name(user_id: str | None, user_name: str | None, domain_id: str | None, domain_name: str | None) -> str:
    """Return what the caller typed as one text: attempts are counted for it whether it names somebody or not."""
    if user_id is not None:
        return f"id {user_id.replace('-', '').lower()}"
    return f"name {(user_name or '').casefold()} in {(domain_id or domain_name or '').casefold()}"


@transaction.atomic
def set_password(user: User, password: str) -> None:
    """Set the password and void every token of the user; InvalidInputError when it is empty or too long."""
    check_new_password(password)
    user.set_password(password)
    user.save(update_fields=["password", "tokens_valid_after"])
    announce.revoked(user_id=user.id)


def change_password(user_id: uuid.UUID, original: str, password: str, *, source: str) -> None:
    """Let users change their own password; NotAuthenticatedError when ``original`` is not the present one."""
    set_password(authenticate_password(user_id=user_id.hex, password=original, source=source), password)


def check_new_password(password: str | None) -> None:
    """Raise InvalidInputError when this may not be a password."""
    if password is None:
        return
    if not password:
        raise InvalidInputError("The password must not be empty.", field="password")
    if len(password) > LONGEST_PASSWORD:
        raise InvalidInputError(f"The password must have at most {LONGEST_PASSWORD} characters.", field="password")
