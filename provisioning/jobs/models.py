"""Which worker groups are alive, who does which periodic work, and who runs which message of the queue."""

from django.db import models


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
