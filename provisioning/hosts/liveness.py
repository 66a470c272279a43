"""Whether a host's agent is there: its link, its heartbeats, and what it holds by the records when it comes back."""

import uuid
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from compute_agent.contract.messages import Hello, Owned, Ownership
from provisioning.common.text import one_line
from provisioning.hosts.audits import compare
from provisioning.hosts.enrolment import check_contract
from provisioning.hosts.models import Host
from provisioning.hosts.subjects import handlers


def connected(host_id: uuid.UUID, hello: Hello) -> None:
    """The host's link stands: note it, and compare what it has with the records.

    Raises NotAuthenticatedError when it speaks another version of the contract.
    """
    check_contract(hello.contract)
    Host.objects.filter(id=host_id).update(
        connected=True,
        last_seen_at=timezone.now(),
        agent_version=one_line(hello.agent_version, 40),
        contract_version=hello.contract,
    )
    compare(host_id, hello.guests, complete=True)


def ownership(host_id: uuid.UUID) -> Ownership:
    """Return what a host holds by the records, with its newest generation: all that is there or on its way there."""
    owned = [subject for handler in handlers() for subject in handler.owned_by(host_id)]
    subjects = [Owned(subject_kind=each.kind, subject_id=str(each.id), generation=each.generation) for each in owned]
    return Ownership(subjects=subjects)


def heartbeat(host_id: uuid.UUID) -> None:
    Host.objects.filter(id=host_id).update(connected=True, last_seen_at=timezone.now())


def disconnected(host_id: uuid.UUID) -> None:
    """The host's link has ended.  The host counts as up until its heartbeats are missed: a link is quickly dialled
    anew.
    """
    Host.objects.filter(id=host_id).update(connected=False)


def mark_silent() -> None:
    """Call the links ended of hosts that have missed their heartbeats."""
    limit = timezone.now() - timedelta(seconds=settings.HOST_DOWN_AFTER)
    Host.objects.filter(connected=True, last_seen_at__lt=limit).update(connected=False)
