"""Tasks: work that takes time and that a record waits for. Base classes, timeouts and registry.

Each kind of task is one class in one module; ``provisioning.wiring.tasks`` lists them.
``jobs.periodic.reaping`` gives up overdue tasks.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.db.models import Model, Q

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, NovellaError
from provisioning.common.wired import Wired

S = TypeVar("S")
"""The record that waits."""
R = TypeVar("R", bound=Model)
N = TypeVar("N", bound=Model)
"""The record that a request names."""
P = TypeVar("P")
"""The request's parameters."""
A = TypeVar("A")
"""The answer to the request."""


class Task(ABC, Generic[S]):
    """A kind of work in the background: an action of a server, or a task of another record."""

    notification: ClassVar[str] = ""
    """OpenStack's name of the task's notifications, without the record and the phase; empty: none are sent."""

    @abstractmethod
    def overdue(self, subject: S) -> None:
        """End, restart or undo the task of a locked record after its timeout."""


@dataclass(frozen=True, slots=True)
class Timeout:
    """The seconds without progress after which a task is overdue."""

    setting: str
    """Name of the setting, without ``NOVELLA_``: seconds, or a mapping of names to seconds."""
    name: str = ""
    """Key in a setting that is a mapping."""
    default: int = 0
    """For a key that the setting lacks."""

    @property
    def seconds(self) -> int:
        value = getattr(settings, self.setting)
        return int(value.get(self.name) or self.default) if self.name else int(value)


class RecordTask(Task[R], Generic[R]):
    """A task of a record with a status: while the task runs, the record has one of the statuses of the task."""

    model: ClassVar[type[Model]]
    timeouts: ClassVar[Mapping[str, Timeout]] = {}
    """Status during the task → its timeout. Empty for a task whose timeout another task with the same status declares,
    and for a job that the queue gives up.
    """
    when_overdue: ClassVar[str] = ""
    """For the operator guide: the result of ``overdue``, without a full stop."""
    clock: ClassVar[str] = "deadline"
    """The column that shows when the task is overdue: ``deadline``, or ``updated_at`` plus the timeout. All tasks of a
    model have the same.
    """
    legal_from: ClassVar[tuple[str, ...]] = ()
    """Statuses in which the task may start, which ``check`` compares; empty: another task or a job starts it. They are
    statuses of the record that the request names, which is not always the record that waits.
    """
    refused: ClassVar[type[NovellaError]] = ConflictError
    """The error for a record in another status."""

    def check(
        self, record: Model, among: Collection[str] | None = None, refused: type[NovellaError] | None = None
    ) -> None:
        """Raise ``refused`` if the task may not start in the record's status.

        ``among`` are the statuses that the request allows, if they are not ``legal_from``.
        """
        status, allowed = getattr(record, "status"), self.legal_from if among is None else among  # noqa: B009
        if status not in allowed:
            named = [each for each in allowed if not each.startswith("error")] or allowed
            noun = str(record._meta.verbose_name).capitalize()
            raise (refused or self.refused)(f"{noun} {record.pk} is {status}; it must be {' or '.join(named)}.")

    def start_of(self) -> str:
        """Return the name of the notification of the start."""
        return f"{self.notification}.start"

    def end_of(self) -> str:
        """Return the name of the notification of the end."""
        return f"{self.notification}.end"

    def lock(self, key: uuid.UUID) -> R | None:
        """Lock the record until the transaction ends, in the locking order of its service; None if it was deleted."""
        row: R | None = self.model._default_manager.select_for_update().filter(pk=key).first()  # type: ignore[assignment]
        return row

    def waits_until(self, subject: R) -> datetime | None:
        """Return when to check an overdue task again, because the work is still in progress; None: it is not."""
        return None

    @when_broken_off
    @transaction.atomic
    def give_up(self, key: uuid.UUID, now: datetime) -> bool:
        """Lock the record, and give up its task if it is still overdue. Returns whether it was given up."""
        subject = self.lock(key)
        rows = self.model._default_manager.filter(pk=key)
        if subject is None or not rows.filter(TASKS.late(self.model, now)).exists():
            return False
        until = self.waits_until(subject)
        if until is None:
            self.overdue(subject)
        elif self.clock == "deadline":
            rows.update(deadline=until)
        return until is None


class UserTask(RecordTask[Any], Generic[N, P, A]):
    """A task that a request begins. The policy, the quota and the command are in the class as well."""

    rule: ClassVar[str]
    """The policy rule, which the API and the pages check."""

    @classmethod
    def begin(cls, context: RequestContext, key: str | uuid.UUID, request: P) -> A:
        """Lock the record that the request names, check its status, and start the task, in one transaction.

        Raises the errors of ``complete`` and ``locked``, ``refused`` for a record in another status than ``allowed``,
        and the errors of ``start``.
        """
        task = cls()
        return task._begin(context, key, task.complete(context, key, request))

    @when_broken_off
    @transaction.atomic
    def _begin(self, context: RequestContext, key: str | uuid.UUID, request: P) -> A:
        record = self.locked(context, key)
        self.check_start(record, request)
        return self.start(context, record, request)

    def check_start(self, record: N, request: P) -> None:
        """Raise ``refused`` if the request may not start the task in the record's status."""
        self.check(record, self.allowed(request))

    def complete(self, context: RequestContext, key: str | uuid.UUID, request: P) -> P:
        """Check the request without the record, and add answers of hosts, before the transaction begins."""
        return request

    def allowed(self, request: P) -> Collection[str]:
        """Return the statuses in which this request may start the task."""
        return self.legal_from

    @abstractmethod
    def locked(self, context: RequestContext, key: str | uuid.UUID) -> N:
        """Return the record that the request names, locked until the transaction ends. Raises NotFoundError."""

    @abstractmethod
    def start(self, context: RequestContext, record: N, request: P) -> A:
        """Check the request, claim its resources, set the status and send the command."""


class CreationTask(RecordTask[R], Generic[R, P]):
    """A task that begins with a request for a new record, which waits for it."""

    rule: ClassVar[str]
    """The policy rule, which the API and the pages check."""

    @classmethod
    def begin(cls, context: RequestContext, request: P, key: uuid.UUID | None = None) -> R:
        """Create the record and start the task, in one transaction. ``key``: the id of the record; None: a new one.

        Raises the errors of ``complete`` and ``start``.
        """
        task = cls()
        return task._begin(context, task.complete(context, request), key or uuid.uuid4())

    @when_broken_off
    @transaction.atomic
    def _begin(self, context: RequestContext, request: P, key: uuid.UUID) -> R:
        return self.start(context, request, key)

    def complete(self, context: RequestContext, request: P) -> P:
        """Check the request, and add answers of hosts, before the transaction begins."""
        return request

    @abstractmethod
    def start(self, context: RequestContext, request: P, key: uuid.UUID) -> R:
        """Check the request, claim its resources, create the record and send the command."""


class Registry:
    """All tasks of records: by model and status, and their timeouts by setting and name."""

    def __init__(self) -> None:
        self.tasks = Wired[RecordTask[Any]]("The tasks of records")
        self._by_status: dict[tuple[type[Model], str], RecordTask[Any]] = {}
        self._timeouts: dict[str, dict[str, Timeout]] = {}

    def connect(self, *tasks: type[RecordTask[Any]]) -> None:
        """Connect all tasks.

        Raises ValueError for two tasks with timeouts in the same status, and for two defaults of a timeout.
        """
        self.tasks.connect(*(task() for task in tasks))
        for task in self.tasks:
            self._index(task)

    def _index(self, task: RecordTask[Any]) -> None:
        for status, timeout in task.timeouts.items():
            if (task.model, str(status)) in self._by_status:
                raise ValueError(f"There are two tasks of {task.model.__name__} with the status {status}.")
            self._by_status[task.model, str(status)] = task
            if self._timeouts.setdefault(timeout.setting, {}).setdefault(timeout.name, timeout) != timeout:
                raise ValueError(f"There are two defaults for {timeout.name} in NOVELLA_{timeout.setting}.")

    def of(self, model: type[Model], status: str) -> RecordTask[Any] | None:
        """Return the task that a record with this status has; None: no task."""
        return self._by_status.get((model, str(status)))

    def timeouts(self, setting: str) -> Mapping[str, Timeout]:
        """Return name → timeout of all statuses whose timeouts are in this setting."""
        return self._timeouts.get(setting, {})

    def check(self) -> None:
        """Raise ImproperlyConfigured at the start if a setting has a timeout for a name that no task has."""
        for setting, known in self._timeouts.items():
            setting_value = getattr(settings, setting)
            if isinstance(setting_value, Mapping) and (unknown := sorted(set(setting_value) - known.keys())):
                raise ImproperlyConfigured(
                    f"NOVELLA_{setting} names {', '.join(unknown)}, which has no deadline; these have:"
                    f" {', '.join(sorted(known))}."
                )

    def models(self, clock: str = "deadline") -> list[type[Model]]:
        """Return the models whose tasks have timeouts by this clock."""
        return list(dict.fromkeys(model for (model, _), task in self._by_status.items() if task.clock == clock))

    def clock(self, model: type[Model]) -> str:
        """Return the column that shows when a task of this model is overdue."""
        return next(task.clock for (known, _), task in self._by_status.items() if known is model)

    def late(self, model: type[Model], now: datetime) -> Q:
        """Return the condition of the records of a model whose task is overdue."""
        if self.clock(model) == "deadline":
            return Q(status__in=self.statuses(model), deadline__lt=now)
        result = Q(pk__in=[])
        for (known, status), task in self._by_status.items():
            if known is model:
                result |= Q(status=status, updated_at__lt=now - timedelta(seconds=task.timeouts[status].seconds))
        return result

    def statuses(self, model: type[Model]) -> list[str]:
        """Return the statuses in which records of a model have a task with a timeout."""
        return [status for known, status in self._by_status if known is model]


TASKS = Registry()
