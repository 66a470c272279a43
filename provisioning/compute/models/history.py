"""What was done with an instance, and how a place was found."""

import uuid

from django.db import models

from provisioning.compute.models.instances import Instance


class InstanceAction(models.Model):
    """One thing that was asked of an instance: create, delete, stop …"""

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="actions")
    action = models.CharField(max_length=40)
    request_id = models.CharField(max_length=64)
    user_id = models.UUIDField(null=True)
    project_id = models.UUIDField(null=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    message = models.CharField(max_length=1024, null=True)
    counted = models.BooleanField(default=False)  # whether the metrics have it already

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["instance", "request_id", "action"], name="one_action_per_request")
        ]
        indexes = [
            models.Index(
                fields=["id"], name="action_to_count", condition=models.Q(counted=False, finished_at__isnull=False)
            )
        ]

    def __str__(self) -> str:
        return self.action


class InstanceActionEvent(models.Model):
    """One step of an action.  Names: ``api_create``, ``schedule``, ``claim``, ``allocate_network``, ``hand_off``, then
    the contract's build steps; each with the attempt it belongs to.
    """

    action = models.ForeignKey(InstanceAction, on_delete=models.CASCADE, related_name="events")
    name = models.CharField(max_length=60)
    attempt = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    result = models.CharField(max_length=16, blank=True)  # "Success", "Error", empty while running
    host = models.CharField(max_length=255, blank=True)
    detail = models.JSONField(default=dict)  # text to text, fit for the owner
    message = models.CharField(max_length=1024, blank=True)  # why it failed, fit for the owner
    counted = models.BooleanField(default=False)  # whether the metrics have it already

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "name", "attempt"], name="one_event_per_step")]
        indexes = [
            models.Index(
                fields=["id"], name="step_to_count", condition=models.Q(counted=False, finished_at__isnull=False)
            )
        ]

    def __str__(self) -> str:
        return self.name


class SchedulingDecision(models.Model):
    """How a place was found, or why there was none; the newest of each action and attempt."""

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="decisions")
    action = models.CharField(max_length=40, default="create")  # create unshelve resize: what needed a place
    attempt = models.PositiveIntegerField()
    host_name = models.CharField(max_length=255, blank=True)  # empty: none
    driver = models.CharField(max_length=255, default="filter")  # the setting's word, or a dotted path
    filters = models.JSONField()  # [{"name", "before", "after", "reason", …}] in running order
    weights = models.JSONField(default=list)  # [{"host", "weight", "parts"}] of the best, for operators
    asked = models.JSONField(default=dict)  # what was asked for: vcpus, memory_mb, disk_gb, zone …
    losses = models.JSONField(default=dict)  # filter → names of the first hosts it took away, for operators
    seconds = models.FloatField()  # in all
    read_seconds = models.FloatField(default=0)  # of them, reading the hosts
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["instance", "attempt", "action"], name="one_decision_per_action")
        ]

    def __str__(self) -> str:
        return self.host_name or "no valid host"


class Migration(models.Model):
    """One move of an instance to another size or host, with Nova's words for ``status`` and ``migration_type``."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="migrations")
    migration_type = models.CharField(max_length=16)  # resize migration live-migration evacuation
    status = models.CharField(max_length=16)  # migrating finished confirmed reverted error …
    source_compute = models.CharField(max_length=255, blank=True)
    dest_compute = models.CharField(max_length=255, blank=True)
    dest_host = models.CharField(max_length=45, blank=True)  # address
    old_flavor = models.JSONField()
    new_flavor = models.JSONField()
    user_id = models.UUIDField(null=True)
    project_id = models.UUIDField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["-created_at", "-id"], name="migration_by_age")]

    def __str__(self) -> str:
        return f"{self.migration_type} {self.status}"


class UsageAudit(models.Model):
    """One run of the usage audit on one host over one period (``os-instance_usage_audit_log``)."""

    host = models.CharField(max_length=255)
    period_beginning = models.DateTimeField()
    period_ending = models.DateTimeField()
    state = models.CharField(max_length=16)  # RUNNING or DONE
    task_items = models.PositiveIntegerField(default=0)  # instances looked at
    errors = models.PositiveIntegerField(default=0)
    message = models.CharField(max_length=255, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["host", "period_beginning", "period_ending"], name="one_audit_of_period")
        ]

    def __str__(self) -> str:
        return f"{self.host} {self.period_ending}"


class Total(models.Model):
    """What was counted of the history for the metrics, and is in no row of it any more: one row for each set of labels.

    ``buckets`` are how many took no longer than each of ``common.tally.BOUNDS`` and more than the one before it.
    """

    family = models.CharField(max_length=20)  # launch step action
    name = models.CharField(max_length=60)  # of the step or the action; the outcome of a launch
    result = models.CharField(max_length=16)  # success error
    count = models.PositiveBigIntegerField(default=0)
    seconds = models.FloatField(default=0)
    buckets = models.JSONField(default=list)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["family", "name", "result"], name="one_total_of_labels")]

    def __str__(self) -> str:
        return f"{self.family} {self.name} {self.result}"
