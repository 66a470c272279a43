"""Notifies open pages when a host stops answering and when it answers again."""

import uuid

from django.db import transaction
from django.utils import timezone

from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.events.selectors import OPERATORS
from provisioning.events.services import Entry, record_all
from provisioning.hosts.models import Host
from provisioning.hosts.notifications import KIND
from provisioning.hosts.selectors import alive
from provisioning.jobs.registry import periodic

IN_ONE_EVENT = 200


@periodic("compute.silent_hosts", every=5.0)
def announce_silent_hosts() -> int:
    """Send events once for each host that stopped answering (or was forced down) or is up again; returns the number
    of hosts.

    ``instances`` in the payload for a project are the servers whose display changes.
    """
    now = timezone.now()
    there = alive(now)
    gone = list(Host.objects.filter(announced_alive=True).exclude(there).values_list("id", flat=True))
    back = list(Host.objects.filter(there, announced_alive=False).values_list("id", flat=True))
    return sum(_announce(host_id, is_alive=False) for host_id in gone) + sum(
        _announce(host_id, is_alive=True) for host_id in back
    )


def _announce(host_id: uuid.UUID, *, is_alive: bool) -> int:
    with transaction.atomic():
        if not Host.objects.filter(id=host_id, announced_alive=not is_alive).update(announced_alive=is_alive):
            return 0
        servers = Instance.objects.filter(host_id=host_id).exclude(vm_state=VmState.DELETED)
        collected: dict[uuid.UUID, list[str]] = {}
        for key, project_id in servers.values_list("id", "project_id"):
            collected.setdefault(project_id, []).append(str(key))
        entries: list[Entry] = [
            (f"project:{project_id}", KIND, {"instances": keys[begin : begin + IN_ONE_EVENT]})
            for project_id, keys in collected.items()
            for begin in range(0, len(keys), IN_ONE_EVENT)
        ]
        record_all([*entries, (OPERATORS, KIND, {"id": str(host_id)})])
    return 1
