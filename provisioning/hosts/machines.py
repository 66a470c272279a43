"""Binding of a host's credential to one machine: a copy of its state folder on another machine is refused."""

import logging
import re
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from provisioning.common.errors import InvalidInputError, NotAuthenticatedError
from provisioning.common.values.text import one_line
from provisioning.hosts.models import Host

log = logging.getLogger(__name__)

SHOWN_FOR = timedelta(days=1)
"""How long operators see that a second machine was refused."""
_MACHINE = re.compile(r"[A-Za-z0-9._-]{0,64}")


def check_machine(host: Host, machine: str, address: str = "") -> None:
    """Record the machine of a host that has none recorded; raise NotAuthenticatedError if another machine is recorded.

    ``address`` is the source address of the agent's connection, recorded for operators.
    """
    check_form(machine)
    if machine == host.machine_id:
        return
    if not host.machine_id and Host.objects.filter(id=host.id, machine_id="").update(machine_id=machine):
        return
    Host.objects.filter(id=host.id).update(
        second_machine_at=timezone.now(), second_machine_address=one_line(address, 45)
    )
    log.error("A second machine, at %s, has the credential of host %s and is refused.", address or "?", host.name)
    raise NotAuthenticatedError(
        f"The credential of host {host.name} belongs to another machine. If this one is a copy, give it a state folder"
        " and a name of its own. If the host has moved here, stop the agent there and join again with a token for"
        f" the name {host.name}."
    )


def check_form(machine: str) -> None:
    """Raise InvalidInputError for an invalid machine id."""
    if not _MACHINE.fullmatch(machine):
        raise InvalidInputError("A machine id has at most 64 letters, digits, '.', '_' and '-'.", field="machine")


def claimed_twice(now: datetime) -> QuerySet[Host]:
    """Return the hosts for which another machine was refused recently."""
    return Host.objects.filter(second_machine_at__gt=now - SHOWN_FOR)
