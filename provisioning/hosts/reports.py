"""What hosts report of the commands they were given: checked against the records, then handed to whoever answers for
the subject.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, transaction

from compute_agent.contract.messages import AgentEvent
from provisioning.common.ids import read_id
from provisioning.common.retry import when_broken_off
from provisioning.hosts import commands
from provisioning.hosts.models import HostCommand
from provisioning.hosts.subjects import SubjectHandler, handler_of, handlers

log = logging.getLogger(__name__)
_STEPS = {"step", "step_started"}
Key = tuple[str, uuid.UUID | None]
"""Kind and id of a subject."""


@dataclass(frozen=True, slots=True)
class _Records:
    """The rows that a batch speaks of, read together; the subjects are locked."""

    subjects: dict[Key, Any]
    commands: dict[uuid.UUID, HostCommand]


@when_broken_off
def receive(host_id: uuid.UUID, events: Sequence[AgentEvent]) -> None:
    """Record what a host reports, in one transaction.

    A report counts only for a command that this host was given, that has not ended, and that is about the report's
    subject and generation: a late, repeated or foreign one changes nothing.  A report that cannot be dealt with is
    logged and passed over, so that it does not hold up the others.
    """
    if not events:
        return
    with transaction.atomic():
        records = _lock(host_id, events)
        for (key, steps), group in itertools.groupby(events, key=lambda event: (_subject(event), event.kind in _STEPS)):
            subject, handler = records.subjects.get(key), handler_of(key[0])
            if subject is None or handler is None:
                continue
            try:
                with transaction.atomic():
                    _take(host_id, handler, subject, list(group), records, steps=steps)
            except OperationalError:
                raise
            except Exception:
                log.exception("A report of host %s about %s %s could not be recorded.", host_id, *key)
                records.subjects.update(_load(handler, [key[1]]))


def _take(
    host_id: uuid.UUID,
    handler: SubjectHandler[Any],
    subject: Any,
    events: list[AgentEvent],
    records: _Records,
    *,
    steps: bool,
) -> None:
    if steps:
        known = [(event, command) for event in events if (command := _command(event, records)) is not None]
        handler.take_steps(subject, known)
        return
    for event in events:
        if event.kind == "power":
            handler.take_state(host_id, subject, event)
            continue
        command = _command(event, records)
        if command is not None:
            commands.finish(host_id, command.id)
            handler.take_end(subject, event, command)
            del records.commands[command.id]


def _command(event: AgentEvent, records: _Records) -> HostCommand | None:
    """Return the unfinished command the event is about, if it is about the event's subject and generation."""
    found = read_id(event.command_id)
    command = records.commands.get(found) if found else None
    if command is None or (command.subject_kind, command.subject_id) != _subject(event):
        return None
    return command if command.generation == event.generation else None


def _lock(host_id: uuid.UUID, events: Sequence[AgentEvent]) -> _Records:
    """Lock the subjects that the events are about, then read them and the unfinished commands."""
    wanted = {_subject(event) for event in events}
    subjects: dict[Key, Any] = {}
    for handler in handlers():
        ids = [subject_id for kind, subject_id in wanted if kind == handler.kind]
        subjects |= _load(handler, ids)
    named = {found for event in events if (found := read_id(event.command_id)) is not None}
    rows = HostCommand.objects.filter(host_id=host_id, id__in=named, finished_at=None)
    return _Records(subjects, {row.id: row for row in rows})


def _load(handler: SubjectHandler[Any], ids: Sequence[uuid.UUID | None]) -> dict[Key, Any]:
    known = {subject_id for subject_id in ids if subject_id is not None}
    return {(handler.kind, found): row for found, row in handler.load(known).items()} if known else {}


def _subject(event: AgentEvent) -> Key:
    return event.subject_kind, read_id(event.subject_id)
