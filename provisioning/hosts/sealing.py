"""Encrypts passwords and volume keys in stored commands, so that no log and no backup contains them."""

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec
from cryptography.fernet import Fernet, InvalidToken

from compute_agent.contract.commands import CommandBody, PasswordRequest, spec_of
from compute_agent.contract.messages import decode_command_body, encode
from compute_agent.contract.volume import VolumeSpec
from provisioning.hosts.models import HostCommand
from provisioning.identity.encryption import keys
from provisioning.identity.encryption.encrypted import renewed

log = logging.getLogger(__name__)
B = TypeVar("B", bound=CommandBody)


def sealed(body: B) -> B:
    """Return a command as it is stored: its password or volume key is encrypted with the credential keys."""
    return _with_password(body, lambda password: keys.CREDENTIALS.current().encrypt(password.encode()).decode())


def opened(body: B) -> B | None:
    """Return a stored command as the host receives it; None if its password or volume key cannot be decrypted."""
    try:
        return _with_password(body, lambda password: keys.CREDENTIALS.current().decrypt(password.encode()).decode())
    except (InvalidToken, keys.KeysMissingError):
        log.error("The key of a command's password is missing; the command ends with its deadline.")  # noqa: TRY400
        return None


def encrypt_again(newest: Fernet) -> tuple[int, list[str]]:
    """Encrypt the secrets of unfinished commands again with ``newest``.

    Returns the number of changed commands, and the ids of commands whose secret no key decrypts.
    """
    changed, lost = 0, []
    unfinished = HostCommand.objects.filter(finished_at=None)
    for command_id, kept in list(unfinished.values_list("id", "body")):
        body = decode_command_body(kept)
        try:
            fresh = _with_password(body, lambda password: renewed(password, newest))
        except InvalidToken:
            lost.append(str(command_id))
            continue
        if fresh != body:
            changed += unfinished.filter(id=command_id).update(body=encode(fresh).decode())
    return changed, lost


def _with_password(body: B, change: Callable[[str], str]) -> B:
    if isinstance(body, PasswordRequest):
        return msgspec.structs.replace(body, password=change(body.password))
    volume = getattr(body, "volume", None)
    if isinstance(volume, VolumeSpec):
        if volume.encryption is None:
            return body
        encryption = msgspec.structs.replace(volume.encryption, key=change(volume.encryption.key))
        return msgspec.structs.replace(body, volume=msgspec.structs.replace(volume, encryption=encryption))
    spec = spec_of(body)
    if spec is None or not spec.admin_password:
        return body
    changed = msgspec.structs.replace(spec, admin_password=change(spec.admin_password))
    return msgspec.structs.replace(body, instance=changed)
