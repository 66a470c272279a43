"""Worker groups, leases of periodic jobs, and messages of the queue that are being run."""

from django.db import models


class WorkerBeat(models.Model):
    """A worker group and the time of its last heartbeat, from its own loop and from a ping through its own queue."""

    name = models.CharField(max_length=120, primary_key=True)
    topics = models.CharField(max_length=200)
    beat_at = models.DateTimeField()
    ping_at = models.DateTimeField(null=True)
    jobs_failed = models.PositiveIntegerField(default=0)  # exceptions of jobs since the group started

    def __str__(self) -> str:
        return self.name


class Lease(models.Model):
    """The lease of a periodic job, so that it runs once regardless of the number of workers, and the result of the last
    run: begin, end, seconds, and error.
    """

    name = models.CharField(max_length=80, primary_key=True)
    holder = models.CharField(max_length=120)
    expires_at = models.DateTimeField()
    last_run_at = models.DateTimeField(null=True)
    last_finished_at = models.DateTimeField(null=True)
    last_seconds = models.FloatField(null=True)
    last_error = models.CharField(max_length=500, blank=True)  # empty: successful

    class Meta:
        verbose_name = "periodic job"
        verbose_name_plural = "periodic work"

    def __str__(self) -> str:
        return self.name


class JobRun(models.Model):
    """A taken message of the queue: its worker group, its worker, and its number of starts."""

    message_id = models.BigIntegerField(primary_key=True)  # id of django-q2's OrmQ
    group = models.CharField(max_length=120, blank=True, db_index=True)  # name of a WorkerBeat; empty: requeued
    worker = models.CharField(max_length=40, blank=True)  # pid and start time; empty: not started
    starts = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.message_id} start {self.starts}"
