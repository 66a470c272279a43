"""Accepts samples from hosts' links: bounded, plausible, and one frame of a host in each slot."""

import logging
import math
import uuid
from collections.abc import Sequence

from django.utils import timezone

from compute_agent.contract.samples import GUEST_SERIES, HOST_SERIES, MOST_GUESTS, Samples
from provisioning.common.values.ids import read_id
from provisioning.measures.codes import encode, pack
from provisioning.measures.models import Rejection, Report
from provisioning.measures.resolutions import FINE

log = logging.getLogger(__name__)

PLACES = FINE.kept // FINE.seconds
RECORD_EVERY = 600.0
"""Seconds between two records of rejections of a link."""
HIGHEST = {
    "cpu": 1e4,
    "memory": 1e9,
    "disk_read": 1e12,
    "disk_write": 1e12,
    "disk_reads": 1e9,
    "disk_writes": 1e9,
    "network_in": 1e12,
    "network_out": 1e12,
    "packets_in": 1e9,
    "packets_out": 1e9,
    "load": 1e6,
    "disk": 1e9,
}
"""Values above are implausible, in the units of ``contract.samples``."""


class Inbox:
    """The samples of one link. ``due`` is called for each frame, before anything is done for it."""

    def __init__(self) -> None:
        self._shift: float | None = None
        self._slot = 0
        self._early = 0
        self._recorded = -math.inf

    def due(self, now: float) -> int | None:
        """Return the slot of a frame that arrives ``now``; None if the host has filled the slot.

        The slots of a link are shifted so that its frames arrive in their middle, and two frames do not use the same
        slot, and no slot is missed, when frames are a little early or late.
        """
        middle = now % FINE.seconds - FINE.seconds / 2
        if self._shift is None:
            self._shift = middle
        slot = int((now - self._shift) // FINE.seconds)
        if slot <= self._slot:
            self._early += 1
            self._shift = middle
            return None
        self._slot = slot
        return slot

    def rejects(self, reasons: Sequence[str], now: float) -> str:
        """Return the reasons of rejections if they are to be recorded, at most once in RECORD_EVERY seconds; otherwise
        an empty text.
        """
        early, self._early = self._early, 0
        sentences = [f"{early} of its frames were too early"] if early > 1 else []
        sentences += reasons
        if not sentences or now < self._recorded + RECORD_EVERY:
            return ""
        self._recorded = now
        return "; ".join(sentences)


def receive(host_id: uuid.UUID, slot: int, samples: Samples, inbox: Inbox, now: float) -> None:
    """Store the samples of a host until they are collected. Implausible values are left out."""
    data, reasons = _packed(samples)
    Report.objects.bulk_create(
        [Report(host_id=host_id, place=slot % PLACES, slot=slot, data=data)],
        update_conflicts=True,
        unique_fields=["host_id", "place"],
        update_fields=["slot", "data"],
    )
    reject(host_id, inbox.rejects(reasons, now))


def reject(host_id: uuid.UUID, reason: str) -> None:
    """Record for the doctor that samples of a host were rejected; an empty reason records nothing."""
    if reason:
        log.warning("Samples of host %s were rejected: %s.", host_id, reason)
        Rejection.objects.update_or_create(
            host_id=host_id, defaults={"at": timezone.now(), "reason": f"{reason}."[:255]}
        )


def _packed(samples: Samples) -> tuple[bytes, list[str]]:
    """Return the data of a report, and the reasons for which parts are left out."""
    wrong: set[str] = set()
    parts = [pack(_codes(HOST_SERIES, samples.host, wrong))]
    seen: set[uuid.UUID] = set()
    for guest in samples.guests[:MOST_GUESTS]:
        parsed = read_id(guest.instance_id)
        if parsed is None or parsed in seen:
            wrong.add("a guest without an id of its own")
            continue
        seen.add(parsed)
        parts += (parsed.bytes, pack(_codes(GUEST_SERIES, guest.values, wrong)))
    if len(samples.guests) > MOST_GUESTS:
        wrong.add(f"more than {MOST_GUESTS} guests")
    return b"".join(parts), sorted(wrong)


def _codes(series: Sequence[str], values: Sequence[float | None], wrong: set[str]) -> list[int]:
    if len(values) != len(series):
        if values:
            wrong.add("a wrong number of values")
        return [0] * len(series)
    codes = []
    for name, value in zip(series, values, strict=True):
        if value is None or 0 <= value <= HIGHEST[name]:  # false for NaN
            codes.append(encode(value))
        else:
            wrong.add(f"an implausible value of {name}")
            codes.append(0)
    return codes
