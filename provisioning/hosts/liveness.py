"""Liveness of hosts' agents: connections, heartbeats, and the comparison with the records when a host reconnects."""

import logging
import math
import time
import uuid
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from compute_agent.contract.messages import Hello, Owned, Ownership
from provisioning.common.errors import NotAuthenticatedError
from provisioning.common.sqlite import remote_hosts
from provisioning.common.values.text import one_line
from provisioning.hosts.audits import compare, compare_documents, compare_volumes
from provisioning.hosts.commands import awaited
from provisioning.hosts.credentials import activate
from provisioning.hosts.enrolment import authenticate, check_contract, uses_next
from provisioning.hosts.machines import check_machine
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import wrong_clock
from provisioning.hosts.subjects import HANDLERS

log = logging.getLogger(__name__)


def admit(host_name: str, credential: str, hello: Hello, address: str = "") -> Host:
    """Verify credential, machine and name of a host whose agent connects from ``address``, and record it as connected.

    Raises NotAuthenticatedError, InvalidInputError.
    """
    host = authenticate(host_name, credential)
    if hello.host != host_name:
        raise NotAuthenticatedError(
            f"The agent reports that it is host {hello.host!r:.80}, but its credential belongs to {host_name}."
        )
    check_machine(host, hello.machine, address)
    remote_hosts.note_remote_host(address)
    if uses_next(host, credential):
        activate(host.id)
    connected(host.id, hello)
    return host


def connected(host_id: uuid.UUID, hello: Hello) -> None:
    """Record that the host is connected, and compare the guests, volumes and documents in its hello with the records.

    Raises NotAuthenticatedError if the agent's version of the contract is not supported.
    """
    check_contract(hello.contract)
    Host.objects.filter(id=host_id).update(
        connected=True,
        last_seen_at=timezone.now(),
        agent_version=one_line(hello.agent_version, 40),
        contract_version=hello.contract,
        **_clock_difference(host_id, hello.time),
    )
    if hello.volumes is not None:  # before its guests: their disks are compared with its volumes
        compare_volumes(host_id, hello.volumes)
    compare(host_id, hello.guests, complete=True)
    if hello.documents is not None:
        compare_documents(host_id, hello.documents, complete=True)


def ownership(host_id: uuid.UUID) -> Ownership:
    """Return the subjects that are, according to the records, on the host or on their way to it, and the host's
    unfinished commands.
    """
    owned = [subject for handler in HANDLERS for subject in handler.owned_by(host_id)]
    subjects = [Owned(subject_kind=each.kind, subject_id=str(each.id), generation=each.generation) for each in owned]
    return Ownership(subjects=subjects, open=awaited(host_id))


def is_known(host_id: uuid.UUID) -> bool:
    """Whether the host still exists: an operator may delete it while it connects."""
    return Host.objects.filter(id=host_id).exists()


def heartbeat(host_id: uuid.UUID, clock: float | None = None) -> None:
    """Record a heartbeat; ``clock`` is the host's own time, in Unix seconds."""
    Host.objects.filter(id=host_id).update(
        connected=True, last_seen_at=timezone.now(), **_clock_difference(host_id, clock)
    )


def _clock_difference(host_id: uuid.UUID, clock: float | None) -> dict[str, float]:
    """Return the column for the host's clock difference; log a warning when the difference first exceeds the limit."""
    if clock is None or not math.isfinite(clock):
        return {}
    ahead = clock - time.time()
    if abs(ahead) > settings.CLOCK_DIFFERENCE_LIMIT:
        name = Host.objects.filter(id=host_id).exclude(wrong_clock()).values_list("name", flat=True).first()
        if name is not None:
            log.warning("The clock of host %s is %+.0f seconds away from the portal's.", name, ahead)
    return {"clock_difference": ahead}


def disconnected(host_id: uuid.UUID) -> None:
    """Record that the agent's connection has ended. The host counts as up until it has missed its heartbeats, because
    agents usually reconnect quickly.
    """
    Host.objects.filter(id=host_id).update(connected=False)


def mark_silent() -> None:
    """Mark hosts that have missed their heartbeats as disconnected."""
    limit = timezone.now() - timedelta(seconds=settings.HOST_DOWN_AFTER)
    Host.objects.filter(connected=True, last_seen_at__lt=limit).update(connected=False)
