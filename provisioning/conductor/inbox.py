"""What hosts report: facts about orders they were given, checked against the records before anything changes."""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import OperationalError, transaction

from compute_agent.contract.messages import AgentEvent
from provisioning.common.retry import when_broken_off
from provisioning.compute import reports, state
from provisioning.compute.models import Instance
from provisioning.rpc.models import HostCommand

log = logging.getLogger(__name__)
_STEPS = {"step", "step_started"}


@dataclass(frozen=True, slots=True)
class _Records:
    """The rows that a batch speaks of, read together."""

    instances: dict[uuid.UUID, Instance]
    commands: dict[uuid.UUID, HostCommand]


@when_broken_off
def receive(host_id: uuid.UUID, events: Sequence[AgentEvent]) -> None:
    """Record what a host reports, in one transaction.

    A report counts only for an order that this host was given, that has not ended, and whose attempt is the instance's:
    a late, repeated or foreign one changes nothing.  A report that cannot be dealt with is logged and passed over, so
    that it does not hold up the others.
    """
    if not events:
        return
    with transaction.atomic():
        records = _read(host_id, events)
        for (instance_id, steps), group in itertools.groupby(
            events, key=lambda event: (event.instance_id, event.kind in _STEPS)
        ):
            instance = records.instances.get(_uuid(instance_id))
            if instance is None:
                continue
            try:
                with transaction.atomic():
                    _take(host_id, instance, list(group), records, steps=steps)
            except OperationalError:
                raise
            except Exception:
                log.exception("A report of host %s about instance %s could not be recorded.", host_id, instance_id)
                records.instances[instance.id] = Instance.objects.select_related("host").get(id=instance.id)


def _take(host_id: uuid.UUID, instance: Instance, events: list[AgentEvent], records: _Records, *, steps: bool) -> None:
    if steps:
        known = [(event, command) for event in events if (command := _command(event, records)) is not None]
        reports.take_steps(instance, known)
        return
    for event in events:
        if event.kind == "power":
            reports.take_power(host_id, instance, event)
            continue
        command = _command(event, records)
        if command is not None:
            reports.take_end(instance, event, command)
            del records.commands[command.id]


def _command(event: AgentEvent, records: _Records) -> HostCommand | None:
    """Return the unfinished order the event is about, if it is the event's instance's and attempt's."""
    command = records.commands.get(_uuid(event.command_id))
    if command is None or str(command.instance_id) != event.instance_id or command.attempt != event.attempt:
        return None
    return command


def _read(host_id: uuid.UUID, events: Iterable[AgentEvent]) -> _Records:
    events = list(events)
    instance_ids = {_uuid(event.instance_id) for event in events}
    command_ids = {_uuid(event.command_id) for event in events if event.command_id}
    commands = HostCommand.objects.filter(host_id=host_id, id__in=command_ids, finished_at=None)
    instances = Instance.objects.select_related("host").filter(id__in=instance_ids)
    state.lock(instance_ids)
    return _Records({row.id: row for row in instances}, {row.id: row for row in commands})


def _uuid(text: str) -> uuid.UUID:
    """Read an id; what is none is the id of nothing."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)
