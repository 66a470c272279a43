"""History of instances: actions, scheduling decisions, migrations, audits and totals."""

import uuid

from django.db import models

from provisioning.compute.models.instances import Instance


class InstanceAction(models.Model):
    """An action on an instance: create, delete, stop …"""

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="actions")
    action = models.CharField(max_length=40)
    request_id = models.CharField(max_length=64)
    user_id = models.UUIDField(null=True)
    project_id = models.UUIDField(null=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    message = models.CharField(max_length=1024, null=True)
    counted = models.BooleanField(default=False)  # already added to the totals of the metrics

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
    """A step of an action. Names: ``api_create``, ``schedule``, ``claim``, ``allocate_network``, ``hand_off``, then the
    contract's build steps; each with its attempt.
    """

    action = models.ForeignKey(InstanceAction, on_delete=models.CASCADE, related_name="events")
    name = models.CharField(max_length=60)
    attempt = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    result = models.CharField(max_length=16, blank=True)  # "Success", "Error", empty while running
    host = models.CharField(max_length=255, blank=True)
    detail = models.JSONField(default=dict)  # text to text, fit for the owner
    message = models.CharField(max_length=1024, blank=True)  # reason of a failure, fit for the owner
    counted = models.BooleanField(default=False)  # already added to the totals of the metrics

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
    """The scheduler's decision, with the reason if there was no valid host; the newest for each action and attempt."""

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="decisions")
    action = models.CharField(max_length=40, default="create")  # create unshelve resize
    attempt = models.PositiveIntegerField()
    host_name = models.CharField(max_length=255, blank=True)  # empty: none
    driver = models.CharField(max_length=255, default="filter")  # value of the setting, or a dotted path
    filters = models.JSONField()  # [{"name", "before", "after", "reason", …}] in order of execution
    weights = models.JSONField(default=list)  # [{"host", "weight", "parts"}] of the best hosts, for operators
    asked = models.JSONField(default=dict)  # the request: vcpus, memory_mb, disk_gb, zone …
    losses = models.JSONField(default=dict)  # filter → names of the first rejected hosts, for operators
    seconds = models.FloatField()  # total
    read_seconds = models.FloatField(default=0)  # part of ``seconds`` for reading the hosts
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["instance", "attempt", "action"], name="one_decision_per_action")
        ]

    def __str__(self) -> str:
        return self.host_name or "no valid host"


class Migration(models.Model):
    """A resize or migration of an instance, with Nova's values of ``status`` and ``migration_type``."""

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
    # Bytes, as the hosts report them; None: not reported.
    memory_total_bytes = models.PositiveBigIntegerField(null=True)
    memory_processed_bytes = models.PositiveBigIntegerField(null=True)
    memory_remaining_bytes = models.PositiveBigIntegerField(null=True)
    disk_total_bytes = models.PositiveBigIntegerField(null=True)
    disk_processed_bytes = models.PositiveBigIntegerField(null=True)
    disk_remaining_bytes = models.PositiveBigIntegerField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["-created_at", "-id"], name="migration_by_age")]

    def __str__(self) -> str:
        return f"{self.migration_type} {self.status}"


class UsageAudit(models.Model):
    """A usage audit of one host and period (``os-instance_usage_audit_log``)."""

    host = models.CharField(max_length=255)
    period_beginning = models.DateTimeField()
    period_ending = models.DateTimeField()
    state = models.CharField(max_length=16)  # RUNNING or DONE
    task_items = models.PositiveIntegerField(default=0)  # number of instances
    errors = models.PositiveIntegerField(default=0)
    message = models.CharField(max_length=255, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["host", "period_beginning", "period_ending"], name="one_audit_of_period")
        ]

    def __str__(self) -> str:
        return f"{self.host} {self.period_ending}"


class Total(models.Model):
    """Counts of finished actions for the metrics, which remain after the history is purged; one row for each set of
    labels.

    ``buckets`` are the numbers of actions up to each of ``common.values.tally.BOUNDS``, not cumulative.
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
