"""Tasks that run as jobs of the queue, which retries them and gives them up after three starts."""

import uuid
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

from django.db.models import Model

from provisioning.common.tasks import TASKS, RecordTask
from provisioning.jobs.queue.cast import cast
from provisioning.jobs.registry import Job

R = TypeVar("R", bound=Model)


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


def jobs_of_tasks() -> Iterator[Job[Any]]:
    """Yield the jobs of all tasks."""
    return (_job_of(task) for task in TASKS.tasks if isinstance(task, JobTask))


def _job_of(task: JobTask[Any]) -> Job[Any]:
    def run(**payload: str) -> None:
        task.run(uuid.UUID(payload[task.payload]))

    def give_up(_: str, **payload: str) -> None:
        task.given_up(uuid.UUID(payload[task.payload]))

    return Job(task.job, task.topic, run, give_up, long=True, leaves_room=task.leaves_room)
