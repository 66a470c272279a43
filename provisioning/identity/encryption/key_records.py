"""Ensures that all machines use the same keys: when a process starts, it compares its keys with the recorded keys."""

import logging
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, transaction
from django.utils.encoding import force_bytes

from provisioning.common.errors import ConflictError
from provisioning.identity.encryption import keys
from provisioning.identity.models import KeyHolder, KeyRecord

TOKENS, CREDENTIALS, SESSIONS, QUEUE = "tokens", "credentials", "sessions", "queue"
KINDS = (TOKENS, CREDENTIALS, SESSIONS, QUEUE)

log = logging.getLogger(__name__)


class KeyMismatchError(ConflictError):
    """The keys of this machine are not the cloud's keys; the message describes how to correct it."""


@dataclass(frozen=True, slots=True)
class MachineKeys:
    """The keys of one kind on this machine."""

    kind: str
    place: str
    fingerprints: Sequence[str]
    """The key that encrypts or signs comes first."""

    @property
    def newest(self) -> str:
        return self.fingerprints[0]


def this_machine() -> str:
    """Return a name for this machine and its data directory, because two clouds may run on one machine."""
    return f"{socket.gethostname()[:100]}:{str(settings.DATA_DIR)[-150:]}"


def held() -> list[MachineKeys]:
    """Return the keys of each kind on this machine; a kind without keys has no fingerprints."""
    secrets = Path(settings.PORTAL_DIR) / "secrets"
    lines = (
        (SESSIONS, "NOVELLA_SECRET_KEY", secrets / "secret_key", [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]),
        (QUEUE, "NOVELLA_BUS_KEY", secrets / "bus_key", [settings.BUS_KEY, *settings.BUS_KEY_FALLBACKS]),
    )
    return [
        *(
            MachineKeys(kind, str(folder.folder), folder.fingerprints())
            for kind, folder in ((TOKENS, keys.TOKENS), (CREDENTIALS, keys.CREDENTIALS))
        ),
        *(
            MachineKeys(kind, f"{path} or {setting}", [keys.fingerprint(force_bytes(key)) for key in signing])
            for kind, setting, path, signing in lines
        ),
    ]


def create_first() -> None:
    """Create the keys of a new cloud, for kinds without a recorded key."""
    known = set(KeyRecord.objects.values_list("kind", flat=True))
    for kind, folder in ((TOKENS, keys.TOKENS), (CREDENTIALS, keys.CREDENTIALS)):
        if kind not in known:
            folder.ensure()


@transaction.atomic
def agree() -> None:
    """Compare the keys of this machine with the cloud's, record the keys of a new cloud, and follow a rotation.

    Raises KeyMismatchError if this machine cannot decrypt data of other machines, or another machine cannot decrypt
    data of this machine.
    """
    create_first()
    for each in held():
        record = _record(each)
        if record.current != each.newest:
            _follow(record, each)
        KeyHolder.objects.update_or_create(
            machine=this_machine(), kind=each.kind, defaults={"fingerprints": list(each.fingerprints)}
        )


def agree_if_possible() -> None:
    """Run ``agree`` at the start of a process. If the database is not available, only log a warning."""
    try:
        agree()
    except DatabaseError as error:
        log.warning("The keys of this machine could not be compared with the cloud's: %s", error)


@transaction.atomic
def accept(kinds: Iterable[str] = KINDS) -> list[MachineKeys]:
    """Record the keys of this machine as the cloud's, replacing the previous records; return the keys that were
    recorded.

    Creates the first key of a kind without keys.
    """
    for folder in (keys.TOKENS, keys.CREDENTIALS):
        folder.ensure()
    result = [each for each in held() if each.kind in set(kinds) and each.fingerprints]
    for each in result:
        KeyRecord.objects.update_or_create(kind=each.kind, defaults={"current": each.newest, "previous": ""})
        KeyHolder.objects.update_or_create(
            machine=this_machine(), kind=each.kind, defaults={"fingerprints": list(each.fingerprints)}
        )
    return result


def forget(machine: str) -> int:
    """Delete the records of a machine that no longer runs a process of this cloud; return the number of deleted
    records.
    """
    return KeyHolder.objects.filter(machine=machine).delete()[0]


def other_machines(kind: str, *, without: str | None = None) -> list[str]:
    """Return the other machines with keys of this kind; ``without``: only machines that lack the key with this
    fingerprint.
    """
    others = KeyHolder.objects.filter(kind=kind).exclude(machine=this_machine()).order_by("machine")
    return [each.machine for each in others if without is None or without not in each.fingerprints]


def _record(each: MachineKeys) -> KeyRecord:
    """Lock and return the record of this kind; in a new cloud, create it.

    Raises KeyMismatchError if there is no record, or this machine has no keys of this kind.
    """
    rows = KeyRecord.objects.select_for_update().filter(kind=each.kind)
    record = rows.first()
    if record is None and each.fingerprints:
        KeyRecord.objects.bulk_create([KeyRecord(kind=each.kind, current=each.newest)], ignore_conflicts=True)
        record = rows.first()
    if record is None or not each.fingerprints:
        raise KeyMismatchError(
            f"There are no {each.kind} keys in {each.place}, but this cloud has some. Copy them from another machine"
            " or from the backup of the keys."
        )
    return record


def _follow(record: KeyRecord, each: MachineKeys) -> None:
    """Accept a newest key that differs from the recorded one if it is part of a rotation.  Raises KeyMismatchError."""
    if record.current not in each.fingerprints:
        raise KeyMismatchError(
            f"The {each.kind} keys in {each.place} are not those of this cloud: key {record.current} is missing."
            " Copy them from another machine or from the backup of the keys. If that key is permanently lost, or was"
            " withdrawn on purpose, run manage.py keys --accept: everything it encrypted or signed becomes invalid."
        )
    if record.previous and each.newest == record.previous:
        return  # other machines already use the next key, and this one can decrypt
    if behind := other_machines(each.kind, without=each.newest):
        raise KeyMismatchError(
            f"The newest {each.kind} key in {each.place} is not on every machine: {', '.join(behind)} could not decrypt"
            " its output. Copy it there and run manage.py keys, or run manage.py keys --forget MACHINE for a"
            " machine that no longer exists."
        )
    record.previous, record.current = record.current, each.newest
    record.save(update_fields=["previous", "current", "changed_at"])
