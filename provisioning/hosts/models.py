"""Hypervisors and their agents: resources, leftovers, certificates, commands and calls."""

import uuid

from django.db import models

DEFAULT_ZONE = "nova"
"""The availability zone of hosts and volume pools that no operator has assigned to another."""


class Host(models.Model):
    """A hypervisor and its agent.

    ``*_total`` are measured by the agent; ``*_allocated`` are the sums of the allocations, changed only by the
    conditional updates of claim and release.  Memory in MiB, disk in GiB.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255, unique=True)
    credential_digest = models.CharField(max_length=64, blank=True)  # SHA-256 of the agent's credential, hex
    next_credential_digest = models.CharField(max_length=64, blank=True)  # of the new credential; both are valid
    credential_wanted_at = models.DateTimeField(null=True)  # when an operator requested a new credential
    machine_id = models.CharField(max_length=64, blank=True)  # the credential is valid on this machine only
    second_machine_at = models.DateTimeField(null=True)  # when another machine was last refused
    second_machine_address = models.CharField(max_length=45, blank=True)
    enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=255, blank=True)
    disabled_at = models.DateTimeField(null=True)  # None: enabled, or disabled before this was recorded
    disabled_by = models.CharField(max_length=255, blank=True, default="", db_default="")  # a user's name
    forced_down = models.BooleanField(default=False)  # set by an operator; overrides the agent's reports
    uptime = models.CharField(max_length=255, blank=True)  # as ``uptime`` prints it, measured with the audit
    availability_zone = models.CharField(max_length=255, default=DEFAULT_ZONE)
    connected = models.BooleanField(default=False)
    announced_alive = models.BooleanField(default=False, db_default=False)  # state that was last sent to open pages
    interfaces_outdated = models.BooleanField(
        default=False, db_default=False
    )  # after a restore: its guests' interfaces are sent again
    last_seen_at = models.DateTimeField(null=True)
    clock_difference = models.FloatField(null=True)  # seconds that its clock is ahead of the portal's; None: unknown
    contract_version = models.PositiveIntegerField(default=0)
    agent_version = models.CharField(max_length=40, blank=True)
    hypervisor_type = models.CharField(max_length=40, blank=True)
    hypervisor_version = models.PositiveIntegerField(default=0)
    hypervisor_hostname = models.CharField(max_length=255, blank=True)
    architecture = models.CharField(max_length=40, blank=True)
    host_ip = models.CharField(max_length=45, blank=True)
    cpu_info = models.JSONField(default=dict)
    traits = models.JSONField(default=list, db_default=[])  # reported by its agent, OpenStack's names
    custom_traits = models.JSONField(default=list, db_default=[], blank=True)  # set by operators: CUSTOM_…
    cached_images = models.JSONField(default=list)
    warnings = models.JSONField(default=list)  # sentences for operators: missing software, failed repairs …
    tracking = models.JSONField(
        default=dict, db_default={}
    )  # connection tracking: fields of contract.messages.Tracking
    repairs = models.JSONField(default=list)  # repairs: {"at": Unix time by its clock, "what": text}, newest last
    vcpus_total = models.PositiveIntegerField(default=0)
    memory_mb_total = models.PositiveIntegerField(default=0)
    disk_gb_total = models.PositiveIntegerField(default=0)
    memory_mb_used = models.PositiveIntegerField(default=0)  # measured by the agent
    disk_gb_used = models.PositiveIntegerField(default=0)
    running_vms = models.PositiveIntegerField(default=0)
    vcpus_allocated = models.PositiveIntegerField(default=0)
    memory_mb_allocated = models.PositiveIntegerField(default=0)
    disk_gb_allocated = models.PositiveIntegerField(default=0)
    instances_allocated = models.PositiveIntegerField(default=0)
    cpu_allocation_ratio = models.FloatField(default=4.0)
    ram_allocation_ratio = models.FloatField(default=1.0)
    disk_allocation_ratio = models.FloatField(default=1.0)
    reserved_memory_mb = models.PositiveIntegerField(default=512)
    reserved_disk_gb = models.PositiveIntegerField(default=0)
    # Copied from the host's aggregates whenever these change; None: the host's own value applies.
    aggregate_cpu_ratio = models.FloatField(null=True)
    aggregate_ram_ratio = models.FloatField(null=True)
    aggregate_disk_ratio = models.FloatField(null=True)
    aggregate_max_instances = models.PositiveIntegerField(null=True)
    aggregate_max_io_ops = models.PositiveIntegerField(null=True)
    failed_builds = models.PositiveIntegerField(default=0)  # since the last success
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class CertificateAuthority(models.Model):
    """An authority for certificates of hosts.  The ``current`` one signs; hosts also trust ``next`` and ``old``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    state = models.CharField(max_length=10, unique=True)
    certificate = models.TextField()  # PEM
    key = models.TextField()  # PEM, encrypted with the keys of credentials
    created_at = models.DateTimeField(auto_now_add=True)
    ends_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.state


class HostCertificate(models.Model):
    """The certificates that were last issued to a host."""

    host = models.OneToOneField(Host, on_delete=models.CASCADE, related_name="certificate")
    digest = models.CharField(max_length=64)  # of all its certificates
    trusted = models.CharField(max_length=64)  # SHA-256 of the authorities sent to it, hex
    issued_at = models.DateTimeField()
    ends_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"until {self.ends_at:%Y-%m-%d}"


class CachedImage(models.Model):
    """An image in a host's cache, as its last audit reported; written together with ``Host.cached_images``."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="image_rows")
    image_id = models.UUIDField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "image_id"], name="image_once_in_cache")]

    def __str__(self) -> str:
        return str(self.image_id)


class Leftover(models.Model):
    """A domain, disk, tap or other object on a host that no record accounts for, as its last audit reported.

    ``subject_id`` is None if the leftover's name contains no id.
    """

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="leftovers")
    kind = models.CharField(max_length=20)  # domain disk tap lease filter foreign_domain …
    name = models.CharField(max_length=255)
    subject_kind = models.CharField(max_length=20)  # kind of the owner: "server", "network" …
    subject_id = models.UUIDField(null=True)
    generation = models.PositiveBigIntegerField(null=True)  # the subject's newest one that the host has seen
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "kind", "name"], name="leftover_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Restore(models.Model):
    """A restore of the database from a backup (``hosts.restored``)."""

    at = models.DateTimeField()
    lines = models.JSONField(default=list)  # actions taken, sentences for operators

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S}"


class JoinToken(models.Model):
    """A one-time permission for one new agent to enrol."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of the token, hex
    host_name = models.CharField(max_length=255, blank=True)  # only this name may use it; empty: any
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.host_name or "any host"


class RefusedAgent(models.Model):
    """An agent that was refused lately; deleted when the host is admitted, or a day after the last attempt.

    The name is the agent's claim: a host with this name need not exist.
    """

    host_name = models.CharField(max_length=255)
    address = models.CharField(max_length=45, blank=True)
    reason = models.CharField(max_length=255)
    attempts = models.PositiveIntegerField(default=1)
    refused_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host_name", "address"], name="agent_refused_once")]

    def __str__(self) -> str:
        return f"{self.host_name} at {self.address}"


class HostCommand(models.Model):
    """One command to one host about one subject; sent until acknowledged, kept until finished.

    ``generation`` is a fence: reports about an older generation of the subject are ignored. The generation of a server
    is its attempt.

    ``deadline`` is extended while the host reports progress; ``ends_at`` is the limit for the start of the command, and
    after the start for its end.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host_id = models.UUIDField()
    subject_kind = models.CharField(max_length=20)  # registered in hosts.subjects
    subject_id = models.UUIDField(db_index=True)
    generation = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    body = models.TextField()  # JSON of the contract's command body
    deadline = models.DateTimeField(null=True)
    timeout = models.PositiveIntegerField(null=True)  # seconds without a heartbeat until it fails
    ends_at = models.DateTimeField(null=True)
    begun_at = models.DateTimeField(null=True)
    beside = models.BooleanField(default=False)  # belongs to no task of its subject
    repeated = models.BooleanField(default=False, db_default=False)  # sent again: its host had a higher generation
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
        return f"{self.kind} {self.subject_kind} {self.subject_id} #{self.generation}"


class CommandTotal(models.Model):
    """Total duration of one kind's deleted commands; ``buckets`` as in ``common.values.tally``."""

    kind = models.CharField(max_length=40, unique=True)
    count = models.PositiveBigIntegerField(default=0)
    seconds = models.FloatField(default=0)
    buckets = models.JSONField(default=list)

    def __str__(self) -> str:
        return self.kind


class RejectedReport(models.Model):
    """A report whose processing failed; it is retried, and discarded after several failures."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="rejected_reports")
    seq = models.BigIntegerField()  # the host's number of the report
    subject_kind = models.CharField(max_length=20)
    subject_id = models.UUIDField(db_index=True)
    generation = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=20)  # finished failed step power …
    event = models.TextField()  # JSON of the contract's AgentEvent
    error = models.CharField(max_length=500)
    tries = models.PositiveIntegerField(default=1)
    received_at = models.DateTimeField(auto_now_add=True)
    due_at = models.DateTimeField()
    given_up_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "seq"], name="rejected_once")]
        indexes = [
            models.Index(fields=["due_at"], name="rejected_due", condition=models.Q(given_up_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_kind} {self.subject_id} #{self.generation}"


class HostCall(models.Model):
    """One call to one host and its answer; short-lived."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host_id = models.UUIDField(db_index=True)
    body = models.TextField()  # JSON of the contract's call body
    result = models.TextField(null=True)  # JSON of the contract's call result
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.id)
