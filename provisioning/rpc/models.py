"""Durable orders to hosts, questions to hosts, who runs which message, liveness of workers, leases of periodic work."""

import uuid

from django.db import models


class HostCommand(models.Model):
    """One order for one host about one instance; sent until acknowledged, kept until finished."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host_id = models.UUIDField()
    instance_id = models.UUIDField(db_index=True)
    attempt = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    body = models.TextField()  # JSON of the contract's command body
    deadline = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    acknowledged_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["host_id", "created_at"],
                name="command_unacknowledged",
                condition=models.Q(acknowledged_at=None),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.instance_id} #{self.attempt}"


class HostCall(models.Model):
    """One question to one host and its answer; short-lived."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host_id = models.UUIDField(db_index=True)
    body = models.TextField()  # JSON of the contract's call body
    result = models.TextField(null=True)  # JSON of the contract's call result
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.id)


class WorkerBeat(models.Model):
    """One worker group and when it was last alive: written by its own loop and by a ping through its own queue."""

    name = models.CharField(max_length=120, primary_key=True)
    topics = models.CharField(max_length=200)
    beat_at = models.DateTimeField()
    ping_at = models.DateTimeField(null=True)
    jobs_failed = models.PositiveIntegerField(default=0)  # exceptions of jobs since the group started

    def __str__(self) -> str:
        return self.name


class Lease(models.Model):
    """Who does a periodic job now, until when; makes it run once however many workers there are.  And how its last run
    went: when it began and ended, how many seconds it took, what error it ended with.
    """

    name = models.CharField(max_length=80, primary_key=True)
    holder = models.CharField(max_length=120)
    expires_at = models.DateTimeField()
    last_run_at = models.DateTimeField(null=True)
    last_finished_at = models.DateTimeField(null=True)
    last_seconds = models.FloatField(null=True)
    last_error = models.CharField(max_length=500, blank=True)  # empty: it went well

    class Meta:
        verbose_name = "periodic job"
        verbose_name_plural = "periodic work"

    def __str__(self) -> str:
        return self.name


class JobRun(models.Model):
    """One taken message of the queue: which worker group has it, which worker runs it, how often it was started."""

    message_id = models.BigIntegerField(primary_key=True)  # of django-q2's OrmQ
    group = models.CharField(max_length=120, blank=True, db_index=True)  # a WorkerBeat's name; empty: given back
    worker = models.CharField(max_length=40, blank=True)  # pid and start time; empty: not begun
    starts = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.message_id} start {self.starts}"
