"""Passwords in commands to hosts: encrypted in the database, so that neither its log nor a backup has them in clear."""

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec
from cryptography.fernet import InvalidToken

from compute_agent.contract.commands import CommandBody, PasswordRequest, spec_of
from provisioning.identity import keys

log = logging.getLogger(__name__)
B = TypeVar("B", bound=CommandBody)


def sealed(body: B) -> B:
    """Return a command as it is kept: its password is encrypted with the credential keys."""
    return _with_password(body, lambda password: keys.CREDENTIALS.current().encrypt(password.encode()).decode())


def opened(body: B) -> B | None:
    """Return a kept command as the host gets it; None when the key of its password is gone."""
    try:
        return _with_password(body, lambda password: keys.CREDENTIALS.current().decrypt(password.encode()).decode())
    except InvalidToken:
        log.error("The key of a command's password is gone; the command ends with its deadline.")  # noqa: TRY400
        return None


def _with_password(body: B, change: Callable[[str], str]) -> B:
    if isinstance(body, PasswordRequest):
        return msgspec.structs.replace(body, password=change(body.password))
    spec = spec_of(body)
    if spec is None or not spec.admin_password:
        return body
    changed = msgspec.structs.replace(spec, admin_password=change(spec.admin_password))
    return msgspec.structs.replace(body, instance=changed)
