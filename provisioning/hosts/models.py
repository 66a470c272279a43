"""Hypervisors and their agents, what agents say lies on them, and what they are told and asked."""

import uuid

from django.db import models

DEFAULT_ZONE = "nova"
"""The zone of hosts, and of pools of volumes, that no operator has moved to another."""


class Host(models.Model):
    """A hypervisor and its agent.

    ``*_total`` are what the agent measured; ``*_allocated`` are the sums of the allocations, moved only by the
    conditional updates of claim and release.  Memory in MiB, disk in GiB.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255, unique=True)
    credential_digest = models.CharField(max_length=64, blank=True)  # SHA-256 of the agent's credential, hex
    next_credential_digest = models.CharField(max_length=64, blank=True)  # of a new one that the agent may use already
    credential_wanted_at = models.DateTimeField(null=True)  # an operator has asked for a new one
    machine_id = models.CharField(max_length=64, blank=True)  # the credential holds for this machine only
    second_machine_at = models.DateTimeField(null=True)  # when another machine was refused last
    second_machine_address = models.CharField(max_length=45, blank=True)
    enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=255, blank=True)
    forced_down = models.BooleanField(default=False)  # an operator says that it is down, whatever its agent says
    uptime = models.CharField(max_length=255, blank=True)  # as ``uptime`` prints it, measured with the audit
    availability_zone = models.CharField(max_length=255, default=DEFAULT_ZONE)
    connected = models.BooleanField(default=False)
    announced_alive = models.BooleanField(default=False, db_default=False)  # what open pages were told of it last
    guests_untold = models.BooleanField(default=False, db_default=False)  # of what may differ since a restore
    last_seen_at = models.DateTimeField(null=True)
    clock_difference = models.FloatField(null=True)  # s that its clock is ahead of ours; None: it does not say
    contract_version = models.PositiveIntegerField(default=0)
    agent_version = models.CharField(max_length=40, blank=True)
    hypervisor_type = models.CharField(max_length=40, blank=True)
    hypervisor_version = models.PositiveIntegerField(default=0)
    hypervisor_hostname = models.CharField(max_length=255, blank=True)
    architecture = models.CharField(max_length=40, blank=True)
    host_ip = models.CharField(max_length=45, blank=True)
    cpu_info = models.JSONField(default=dict)
    traits = models.JSONField(default=list, db_default=[])  # what its agent can offer guests, by OpenStack's names
    custom_traits = models.JSONField(default=list, db_default=[], blank=True)  # what operators say of it: CUSTOM_…
    cached_images = models.JSONField(default=list)
    warnings = models.JSONField(default=list)  # sentences: what it lacks, or cannot mend
    tracking = models.JSONField(
        default=dict, db_default={}
    )  # connections: entries limit share largest, and whose: port
    mended = models.JSONField(default=list)  # {"at": Unix time of its clock, "what": text}, the newest last
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
    # What the host's aggregates say instead, written with them; None: the host's own holds.
    aggregate_cpu_ratio = models.FloatField(null=True)
    aggregate_ram_ratio = models.FloatField(null=True)
    aggregate_disk_ratio = models.FloatField(null=True)
    aggregate_max_instances = models.PositiveIntegerField(null=True)
    aggregate_max_io_ops = models.PositiveIntegerField(null=True)
    failed_builds = models.PositiveIntegerField(default=0)  # since the last one that went well
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class CertificateAuthority(models.Model):
    """Who signs the certificates of hosts; ``state``: ``current`` signs, hosts trust ``next`` and ``old`` besides."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    state = models.CharField(max_length=10, unique=True)
    certificate = models.TextField()  # PEM
    key = models.TextField()  # PEM, encrypted with the keys of credentials
    created_at = models.DateTimeField(auto_now_add=True)
    ends_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.state


class HostCertificate(models.Model):
    """The certificates that a host was given last."""

    host = models.OneToOneField(Host, on_delete=models.CASCADE, related_name="certificate")
    digest = models.CharField(max_length=64)  # of all that it was given
    trusted = models.CharField(max_length=64)  # SHA-256 of the authorities that it was told, hex
    issued_at = models.DateTimeField()
    ends_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"until {self.ends_at:%Y-%m-%d}"


class CachedImage(models.Model):
    """An image that a host has in its cache, as its last audit said; written with ``Host.cached_images``."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="image_rows")
    image_id = models.UUIDField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "image_id"], name="image_once_in_cache")]

    def __str__(self) -> str:
        return str(self.image_id)


class Leftover(models.Model):
    """Something on a host that nothing there accounts for, as its last audit said: a domain, a disk, a tap …

    ``subject_id`` None: it bears nobody's name.
    """

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="leftovers")
    kind = models.CharField(max_length=20)  # domain disk tap lease filter foreign_domain …
    name = models.CharField(max_length=255)
    subject_kind = models.CharField(max_length=20)  # whose leftovers are of this kind: "server", "network" …
    subject_id = models.UUIDField(null=True)
    generation = models.PositiveBigIntegerField(null=True)  # the newest of the subject that the host has seen
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "kind", "name"], name="leftover_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Restore(models.Model):
    """One time that the records were put back from a copy (``hosts.restored``)."""

    at = models.DateTimeField()
    lines = models.JSONField(default=list)  # what was done, sentences for operators

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


class HostCommand(models.Model):
    """One command to one host about one subject; sent until acknowledged, kept until finished.

    ``generation`` fences: what is said about an older generation of the subject changes nothing.  For a server it is
    its attempt.

    ``deadline`` moves while the host says that it works; ``ends_at`` is the last moment to begin, then the last to end.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host_id = models.UUIDField()
    subject_kind = models.CharField(max_length=20)  # registered in hosts.subjects
    subject_id = models.UUIDField(db_index=True)
    generation = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    body = models.TextField()  # JSON of the contract's command body
    deadline = models.DateTimeField(null=True)
    timeout = models.PositiveIntegerField(null=True)  # s that its host may be silent about it
    ends_at = models.DateTimeField(null=True)
    begun_at = models.DateTimeField(null=True)
    beside = models.BooleanField(default=False)  # belongs to no task of its subject
    repeated = models.BooleanField(default=False, db_default=False)  # sent again: its host knew a higher generation
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
    """How long commands of one kind took whose rows have gone; ``buckets`` as those of ``common.tally``."""

    kind = models.CharField(max_length=40, unique=True)
    count = models.PositiveBigIntegerField(default=0)
    seconds = models.FloatField(default=0)
    buckets = models.JSONField(default=list)

    def __str__(self) -> str:
        return self.kind


class RejectedReport(models.Model):
    """A report that could not be dealt with, because handling it failed; it is tried again, and given up in the end."""

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
    """One question to one host and its answer; short-lived."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host_id = models.UUIDField(db_index=True)
    body = models.TextField()  # JSON of the contract's call body
    result = models.TextField(null=True)  # JSON of the contract's call result
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.id)
