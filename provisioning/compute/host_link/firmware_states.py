"""Firmware states of servers that are shelved or move: their UEFI variables and TPMs.

A host sends the state of a server that it shelves or sends to another host, and the host that builds or receives the
server gets it. The state is stored with the server's records, encrypted with the credential keys, as it contains the
key of the TPM.
"""

import hashlib
import uuid
from collections.abc import Iterator

from cryptography.fernet import Fernet, InvalidToken
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import (
    BuildRequest,
    CommandBody,
    ReceiveGuestRequest,
    SendGuestRequest,
    SnapshotRequest,
)
from compute_agent.contract.messages import decode_command_body
from provisioning.common.errors import GoneError, InvalidInputError, NotFoundError
from provisioning.compute.disks.device_names import hardware_of
from provisioning.compute.models import FirmwareState, Instance
from provisioning.compute.records import host_commands
from provisioning.compute.state_machine import state
from provisioning.identity.encryption import keys
from provisioning.identity.encryption.encrypted import renewed

NOT_HERE = "The host has no command that needs this firmware state."


def has_state(instance: Instance) -> bool:
    """Return whether the server's hardware has UEFI variables or a TPM."""
    hardware = hardware_of(instance.image_properties, instance.flavor)
    return bool(hardware.tpm_version) or (hardware.firmware == "uefi" and not hardware.firmware_stateless)


def is_stored(instance: Instance) -> bool:
    return FirmwareState.objects.filter(instance=instance).exists()


def digest_of(instance: Instance) -> str:
    """Return the SHA-256 of the packed state of a shelved server; empty if none is stored."""
    if not has_state(instance):
        return ""
    return FirmwareState.objects.filter(instance=instance).values_list("digest", flat=True).first() or ""


def discard(instance: Instance) -> None:
    """Delete the stored state of a server: its host has a newer one, or the server is deleted. Idempotent."""
    if has_state(instance):
        FirmwareState.objects.filter(instance=instance).delete()


def store(host_id: uuid.UUID, instance_id: uuid.UUID, digest: str, packed: bytes) -> None:
    """Store the state of a server that the host is shelving. It replaces an earlier state from the same command.

    Raises NotFoundError if no unfinished command of the host requests it, InvalidInputError for another SHA-256.
    """
    with transaction.atomic():
        state.lock([instance_id])
        instance = Instance.objects.filter(id=instance_id, host_id=host_id).first()
        if instance is None or not _is_requested(instance):
            raise NotFoundError(NOT_HERE)
        arrived = hashlib.sha256(packed).hexdigest()
        if arrived != digest:
            raise InvalidInputError(f"The firmware state does not match its digest: it has SHA-256 {arrived}.")
        FirmwareState.objects.filter(instance=instance).delete()
        FirmwareState.objects.create(
            instance=instance,
            packed=keys.CREDENTIALS.current().encrypt(packed).decode(),
            digest=digest,
            size=len(packed),
            stored_at=timezone.now(),
        )


def packed_state(host_id: uuid.UUID, instance_id: uuid.UUID, digest: str) -> bytes:
    """Return the packed state for a build of the unshelved server by this host.

    Raises NotFoundError if no unfinished build of the host has this state, GoneError if no credential key decrypts it.
    """
    instance = Instance.objects.filter(id=instance_id, host_id=host_id).first()
    row = FirmwareState.objects.filter(instance_id=instance_id, digest=digest).first()
    if instance is None or row is None or not _building_with(instance, digest):
        raise NotFoundError(NOT_HERE)
    try:
        return keys.CREDENTIALS.current().decrypt(row.packed.encode())
    except InvalidToken as error:
        raise GoneError(f"The firmware state of server {instance_id} cannot be decrypted in this cloud.") from error


def _is_requested(instance: Instance) -> bool:
    kinds = SnapshotRequest, SendGuestRequest
    return any(isinstance(body, kinds) and body.firmware_state for body in _commanded(instance, *kinds))


def _building_with(instance: Instance, digest: str) -> bool:
    kinds = BuildRequest, ReceiveGuestRequest
    return any(isinstance(body, kinds) and body.firmware_state == digest for body in _commanded(instance, *kinds))


def _commanded(instance: Instance, *kinds: type[CommandBody]) -> Iterator[CommandBody]:
    """Yield the unfinished commands of these kinds that the server's host has."""
    for kind in kinds:
        yield from (decode_command_body(row.body) for row in host_commands.of_kind(instance, kind))


def encrypt_again(newest: Fernet) -> tuple[int, list[str]]:
    """Encrypt the stored states again with this key (``identity.encryption.encrypted``)."""
    changed, lost = 0, []
    for instance_id in list(FirmwareState.objects.values_list("instance_id", flat=True)):
        row = FirmwareState.objects.filter(instance_id=instance_id)
        kept = row.values_list("packed", flat=True).first()
        if kept is None:
            continue
        try:
            fresh = renewed(kept, newest)
        except InvalidToken:
            lost.append(str(instance_id))
            continue
        if fresh != kept:
            changed += row.filter(packed=kept).update(packed=fresh)
    return changed, lost
