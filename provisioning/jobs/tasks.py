"""Tasks that run as jobs of the queue, which retries them and gives them up after three starts."""

import uuid
from abc import abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from django.db.models import Model

from provisioning.common.tasks import TASKS, RecordTask
from provisioning.jobs import registry
from provisioning.jobs.cast import cast

R = TypeVar("R", bound=Model)
T = TypeVar("T", bound="type[JobTask[Any]]")


class JobTask(RecordTask[R], Generic[R]):
    """A task that a worker carries out. It runs at least once, so ``run`` checks the record first."""

    topic: ClassVar[str]
    job: ClassVar[str]
    """Name of the job."""
    payload: ClassVar[str]
    """Name of the record's id in the job's message."""
    leaves_room: ClassVar[bool] = False
    """Whether the job never uses a worker's last thread for long jobs."""

    def queue(self, key: uuid.UUID) -> None:
        """Queue the job in the caller's transaction."""
        cast(self.topic, self.job, **{self.payload: str(key)})

    @abstractmethod
    def run(self, key: uuid.UUID) -> None:
        """Carry out the task. An exception is logged, and the job is retried."""

    @abstractmethod
    def given_up(self, key: uuid.UUID) -> None:
        """Record that the job failed too often."""

    def overdue(self, subject: R) -> None:
        self.queue(subject.pk)


def job_task(cls: T) -> T:
    """Register a class of tasks and its job."""
    known: JobTask[Any] = cls()
    TASKS.add(known)

    def run(**payload: str) -> None:
        known.run(uuid.UUID(payload[known.payload]))

    def give_up(_: str, **payload: str) -> None:
        known.given_up(uuid.UUID(payload[known.payload]))

    run.__qualname__ = f"{cls.__qualname__}.run"
    register = registry.job(cls.job, topic=cls.topic, on_give_up=give_up, long=True, leaves_room=cls.leaves_room)
    register(run)
    return cls
