"""Drains of hosts, with the result for each server."""

import uuid

from django.db import models
from django.db.models import Q

from provisioning.hosts.models import Host


class Drain(models.Model):
    """A request of an operator to move or stop the servers of a host, or to move them back to it.

    Its items are executed by a job with the rights that the user has then.
    """

    class State(models.TextChoices):
        """In ``paused`` and ``cancelled`` no other moves begin; moves in progress are completed."""

        RUNNING = "running"
        PAUSED = "paused"
        CANCELLED = "cancelled"
        FINISHED = "finished"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="drains")
    state = models.CharField(max_length=10, choices=State, default=State.RUNNING)
    returns = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="returned_by")
    # the drain whose servers come back; None: servers leave the host
    ways = models.JSONField(default=list)  # names of the allowed ways
    user_id = models.UUIDField()
    project_id = models.UUIDField()
    user_name = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["host"],
                condition=Q(finished_at=None),
                name="drain_one_unfinished",
                violation_error_message="The host has another drain that has not ended.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.host_id} {self.state}"


class DrainItem(models.Model):
    """One server of a drain."""

    class State(models.TextChoices):
        """``moving``: its action has begun; ``stays``: the plan found nothing to do; ``cancelled``: never begun."""

        WAITING = "waiting"
        MOVING = "moving"
        DONE = "done"
        FAILED = "failed"
        STAYS = "stays"
        CANCELLED = "cancelled"

    drain = models.ForeignKey(Drain, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveIntegerField()
    instance_id = models.UUIDField()
    name = models.CharField(max_length=255)  # of the server, when the drain began
    way = models.CharField(max_length=20, blank=True)
    target = models.CharField(max_length=255, blank=True)  # name of a host: the expected one, then the real one
    seconds = models.FloatField(default=0)  # estimated
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    reason = models.TextField(blank=True)  # why it stays, or failed
    change = models.TextField(blank=True)  # what an operator can change
    idle = models.BooleanField(default=False)  # it stays because it does not run
    tries = models.PositiveIntegerField(default=0)  # while another task of the server was in progress
    begun_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["drain", "position"], name="drain_item_by_position")]
        indexes = [models.Index(fields=["drain", "state"], name="drain_item_by_state")]

    def __str__(self) -> str:
        return f"{self.name} {self.state}"
