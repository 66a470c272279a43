"""Instances and their allocations."""

import uuid

from django.db import models

from provisioning.compute.models.groups import ServerGroup
from provisioning.compute.states import PowerState, TaskState, VmState
from provisioning.hosts.models import Host


class Instance(models.Model):
    """A server: its request, host and state.

    Only ``compute.state`` writes the state columns, by conditional updates against ``states.LEGAL``.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField()
    user_id = models.UUIDField()
    name = models.CharField(max_length=255)
    hostname = models.CharField(max_length=255)  # a label, or a name with domain as requested
    description = models.CharField(max_length=255, null=True)
    vm_state = models.CharField(max_length=20, choices=VmState, default=VmState.BUILDING)
    task_state = models.CharField(max_length=32, choices=TaskState, null=True, default=TaskState.SCHEDULING)
    power_state = models.PositiveSmallIntegerField(default=PowerState.NOSTATE.value)
    task_deadline = models.DateTimeField(null=True)
    attempt = models.PositiveIntegerField(default=0)  # fencing number: incremented by every scheduling and delete
    guest_attempt = models.PositiveIntegerField(null=True)  # the guest's attempt, if it differs
    lost_attempts = models.JSONField(
        default=list, db_default=[]
    )  # [[above, below, host id|null]]: may have been used in records that a restore lost
    version = models.PositiveIntegerField(default=1)  # incremented by every change that pages show
    host = models.ForeignKey(Host, null=True, on_delete=models.PROTECT, related_name="instances")
    availability_zone = models.CharField(max_length=255, blank=True)  # as requested; empty: any
    image_id = models.UUIDField(null=True)
    image_name = models.CharField(max_length=255, blank=True)
    flavor = models.JSONField()  # a copy: flavorid name vcpus memory_mb root_gb ephemeral_gb swap_mb extra_specs
    key_name = models.CharField(max_length=255, null=True)
    public_key = models.TextField(null=True)
    user_data = models.TextField(null=True)  # base64
    metadata = models.JSONField(default=dict)  # text to text
    tags = models.JSONField(default=list)
    config_drive = models.BooleanField(default=False)
    requested_networks = models.JSONField(
        default=list
    )  # [{"network_id"|"port_id", "fixed_ip"}] in order of the interfaces
    security_groups = models.JSONField(default=list)  # ids
    scheduler_hints = models.JSONField(default=dict)
    excluded_hosts = models.JSONField(default=list)  # ids of hosts that failed the build
    reservation_id = models.CharField(max_length=32, db_index=True)
    launch_index = models.PositiveIntegerField(default=0)
    locked = models.BooleanField(default=False)
    locked_reason = models.CharField(max_length=255, null=True)
    access_ip_v4 = models.CharField(max_length=45, blank=True)
    access_ip_v6 = models.CharField(max_length=45, blank=True)
    disk_config = models.CharField(max_length=6, default="MANUAL")  # MANUAL or AUTO
    injected_files = models.JSONField(default=list)  # [{"path", "contents": base64}]
    trusted_certificates = models.JSONField(null=True)  # ids, as requested
    image_properties = models.JSONField(default=dict)  # of the image when the root disk was created, text to text
    admin_password = models.TextField(blank=True)  # encrypted; deleted when the guest is built
    password = models.TextField(blank=True)  # encrypted by the guest with its key (os-server-password)
    requested_host = models.CharField(max_length=255, blank=True)  # requested by an operator
    previous_vm_state = models.CharField(max_length=20, blank=True)  # target of unrescue, restore and revert
    old_flavor = models.JSONField(null=True)  # new one until the guest is resized, then the previous one
    resized_at = models.DateTimeField(null=True)  # begin of the wait for a confirmation
    rescue_image_id = models.UUIDField(null=True)
    snapshot_image_id = models.UUIDField(null=True)  # from which a shelved server is unshelved
    shelved_at = models.DateTimeField(null=True)
    soft_deleted_at = models.DateTimeField(null=True)
    server_group = models.ForeignKey(
        ServerGroup, null=True, on_delete=models.SET_NULL, related_name="instances", db_index=True
    )
    request_id = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    launched_at = models.DateTimeField(null=True)
    terminated_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["project_id", "-created_at", "-id"], name="instance_of_project"),
            models.Index(
                # the last two only so that counting reads no rows
                fields=["project_id", "-created_at", "-id", "vm_state", "deleted_at"],
                name="instance_kept_of_project",
                condition=models.Q(deleted_at=None),
            ),
            models.Index(fields=["-created_at", "-id"], name="instance_kept", condition=models.Q(deleted_at=None)),
            models.Index(fields=["task_deadline"], name="instance_deadline", condition=~models.Q(task_state=None)),
            models.Index(
                fields=["host", "task_state"], name="instance_busy", condition=models.Q(task_state__isnull=False)
            ),
            models.Index(fields=["vm_state"], name="instance_by_state", condition=models.Q(deleted_at=None)),
            models.Index(fields=["deleted_at"], name="instance_deleted", condition=models.Q(deleted_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def host_name(self) -> str:
        """Name of the host; empty for an instance without a host."""
        return self.host.name if self.host else ""


class Allocation(models.Model):
    """Resources of an instance on its host. One row for each instance, so there is only one allocation."""

    instance = models.OneToOneField(Instance, on_delete=models.CASCADE, related_name="allocation")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="allocations")
    attempt = models.PositiveIntegerField()
    vcpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    disk_gb = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.instance_id} on {self.host_id}"


class FirmwareState(models.Model):
    """The UEFI variables and the TPM of a shelved server, until it is unshelved or deleted."""

    instance = models.OneToOneField(Instance, primary_key=True, on_delete=models.CASCADE, related_name="firmware_state")
    packed = models.TextField()  # as the host sent it, encrypted with the credential keys
    digest = models.CharField(max_length=64)  # SHA-256 of the packed state, hexadecimal
    size = models.PositiveIntegerField()  # bytes that the host sent
    stored_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"of {self.instance_id}"


class NewerGuest(models.Model):
    """A guest, or only an attempt that its host has seen, that is newer than the instance's record (``newer_guests``).

    Kept until an operator acknowledges it.
    """

    class Outcome(models.TextChoices):
        """The result of handling the newer guest."""

        OPEN = "open", "left alone"
        FOLLOWED = "followed", "the record follows it"
        REMOVED = "removed", "removed"
        GONE = "gone", "gone from its host"

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="newer_guests")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="newer_guests")
    attempt = models.PositiveIntegerField()  # of the guest, or seen by the host
    record_attempt = models.PositiveIntegerField()  # the record's when the guest was first seen
    record_state = models.CharField(max_length=20)  # the record's vm_state then
    record_host = models.CharField(max_length=255, blank=True)  # name of the record's host then
    power_state = models.PositiveSmallIntegerField(default=PowerState.NOSTATE.value)
    outcome = models.CharField(max_length=10, choices=Outcome, default=Outcome.OPEN)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["instance", "host"], name="newer_guest_once")]
        verbose_name = "newer guest"

    def __str__(self) -> str:
        return f"{self.instance_id} on {self.host_id}"


class InstanceFault(models.Model):
    """The reason of an instance's failure: ``message`` for its owner, ``details`` for operators."""

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="faults")
    code = models.PositiveIntegerField(default=500)
    message = models.CharField(max_length=1024)
    details = models.TextField(blank=True)
    host_name = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.message


class InstanceTag(models.Model):
    """A tag of an instance, for filters; written together with ``Instance.tags``."""

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="tag_rows")
    tag = models.CharField(max_length=80)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["instance", "tag"], name="tag_once_on_instance")]
        indexes = [models.Index(fields=["tag"], name="instance_tag")]

    def __str__(self) -> str:
        return self.tag


class ConsoleToken(models.Model):
    """Token to open a console once, for one user, instance and attempt."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of the token, hex
    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="console_tokens")
    user_id = models.UUIDField()
    attempt = models.PositiveIntegerField()  # of the instance when the token was issued
    protocol = models.CharField(max_length=8)  # vnc, serial
    console_type = models.CharField(max_length=16)  # novnc, serial
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    asked_with = models.JSONField(default=dict)  # identity.kept_tokens: the caller's token, with which it ends
    takes_over = models.BooleanField(default=False, db_default=False)  # closes another user's exclusive console

    class Meta:
        indexes = [models.Index(fields=["expires_at"], name="console_token_end")]

    def __str__(self) -> str:
        return f"{self.console_type} of {self.instance_id}"
