"""Processes hosts' reports about commands: checks them against the records and passes them to the subject's handler."""

import itertools
import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, transaction
from django.db.models import UUIDField
from django.utils import timezone

from compute_agent.contract.messages import AgentEvent, decode_event
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.database.retry import when_broken_off
from provisioning.common.values.ids import read_id
from provisioning.hosts import commands, rejected
from provisioning.hosts.models import HostCommand, RejectedReport
from provisioning.hosts.subjects import HANDLERS, SubjectHandler, handler_of

log = logging.getLogger(__name__)
BATCH = 100
_STEPS = {"step", "step_started"}
_SIGNS = {"begun", "progress"}
_STATES = {"power", "posted", "lease"}
_ENDS = {"finished", "failed"}
Key = tuple[str, uuid.UUID | None]
"""Kind and id of a subject."""


@dataclass(frozen=True, slots=True)
class _Records:
    """The rows that a batch of events refers to, read together; the subjects are locked. ``ending`` contains the ids of
    the commands that the batch ends.
    """

    subjects: dict[Key, Any]
    commands: dict[uuid.UUID, HostCommand]
    ending: frozenset[str]


@when_broken_off
def receive(host_id: uuid.UUID, events: Sequence[AgentEvent]) -> None:
    """Record a host's reports, in one transaction.

    A report counts only for an unfinished command to this host with the report's subject and generation; other reports
    are ignored. A report whose processing fails is stored and retried, so that it is not lost and does not delay the
    other reports.
    """
    if not events:
        return
    try:
        with transaction.atomic():
            records = _lock(host_id, events)
            for batch in _batches(events):
                _process(host_id, batch, records)
    except OperationalError:
        raise
    except Exception:  # noqa: BLE001 - nothing was written; the second attempt finds the report that fails
        _receive_apart(host_id, events)


def _receive_apart(host_id: uuid.UUID, events: Sequence[AgentEvent]) -> None:
    """Record reports of which some cannot be processed; the others are not affected."""
    with transaction.atomic():
        records = _lock(host_id, events)
        for batch in _batches(events):
            try:
                with transaction.atomic():
                    _process(host_id, batch, records)
            except OperationalError:
                raise
            except Exception as error:
                key = _subject(batch[0])
                log.exception("A report of host %s about %s %s could not be processed.", host_id, *key)
                rejected.keep(host_id, batch, error)
                records.subjects.update(_load(key[0], [key[1]]))


def _batches(events: Sequence[AgentEvent]) -> Iterator[list[AgentEvent]]:
    """Return batches: consecutive steps about one subject are one batch, and each other event is one batch."""
    for (_, steps), group in itertools.groupby(events, key=lambda event: (_subject(event), event.kind in _STEPS)):
        if steps:
            yield list(group)
        else:
            yield from ([event] for event in group)


def try_again() -> None:
    """Retry reports whose processing failed, each in its own transaction."""
    for report in rejected.due(timezone.now())[:BATCH]:
        try:
            _try_again(report)
        except OperationalError:
            raise
        except Exception as error:
            log.exception("A report of host %s, stored for a retry, could not be processed.", report.host_id)
            rejected.failed_again(report, error)


@when_broken_off
def _try_again(report: RejectedReport) -> None:
    event = decode_event(report.event)
    with transaction.atomic():
        _process(report.host_id, [event], _lock(report.host_id, [event]))
        report.delete()


def _process(host_id: uuid.UUID, events: Sequence[AgentEvent], records: _Records) -> None:
    """Pass events about one subject to its handler: any number of steps, or one event of another kind."""
    key = _subject(events[0])
    subject, handler = records.subjects.get(key), handler_of(key[0])
    if subject is None or handler is None:
        for event in events:
            if event.kind in ("finished", "failed") and (ended := _command(event, records)) is not None:
                commands.finish(host_id, ended.id)  # its subject was deleted: no other code ends it
        return
    if events[0].kind in _STEPS:
        handler.record_steps(subject, [(event, known) for event in events if (known := _command(event, records))])
        _heartbeat(handler, subject, events[-1], records)
        return
    (event,) = events
    if event.kind in _SIGNS:
        _heartbeat(handler, subject, event, records)
        if event.detail and (moving := _command(event, records)) is not None:
            handler.record_progress(subject, event, moving)
        return
    if event.kind in _STATES:
        handler.process_change(host_id, subject, event)
        return
    command = _command(event, records)
    if command is not None:
        commands.finish(host_id, command.id)
        handler.process_end(subject, event, command)
        del records.commands[command.id]


def _heartbeat(handler: SubjectHandler[Any], subject: Any, event: AgentEvent, records: _Records) -> None:
    """Extend a command's deadline, because a step or another event shows that the host is working on it."""
    command = _command(event, records)
    if command is None or event.command_id in records.ending:
        return
    until = commands.goes_on(command, begun=event.kind in _SIGNS)
    if until is None:
        return
    if command.beside:
        handler.heartbeat_beside(subject, command, until)
    else:
        handler.heartbeat(subject, command, until)


def _command(event: AgentEvent, records: _Records) -> HostCommand | None:
    """Return the unfinished command of the event, if the event has the command's subject and generation."""
    parsed = read_id(event.command_id)
    command = records.commands.get(parsed) if parsed else None
    if command is None or (command.subject_kind, command.subject_id) != _subject(event):
        return None
    return command if command.generation == event.generation else None


def _lock(host_id: uuid.UUID, events: Sequence[AgentEvent]) -> _Records:
    """Lock the subjects of the events, then read them and the unfinished commands."""
    requested = {_subject(event) for event in events}
    subjects: dict[Key, Any] = {}
    for handler in HANDLERS:
        ids = [subject_id for kind, subject_id in requested if kind == handler.kind]
        subjects |= _load(handler.kind, ids)
    named = {parsed for event in events if (parsed := read_id(event.command_id)) is not None}
    rows = _OPEN(host_id=host_id, ids=named)
    ending = frozenset(event.command_id for event in events if event.kind in _ENDS)
    return _Records(subjects, {row.id: row for row in rows}, ending)


_OPEN = Prepared(
    lambda host_id, ids: HostCommand.objects.filter(Among("id", ids), host_id=host_id, finished_at=None),
    host_id=UUIDField(),
    ids=Ids(),
)


def _load(kind: str, ids: Sequence[uuid.UUID | None]) -> dict[Key, Any]:
    handler, known = handler_of(kind), {subject_id for subject_id in ids if subject_id is not None}
    if handler is None or not known:
        return {}
    return {(kind, found): row for found, row in handler.load(known).items()}


def _subject(event: AgentEvent) -> Key:
    return event.subject_kind, read_id(event.subject_id)
