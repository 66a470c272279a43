"""Hypervisors and their agents."""

import uuid

from django.db import models


class Host(models.Model):
    """A hypervisor and its agent.

    ``*_total`` are what the agent measured; ``*_allocated`` are the sums of the allocations, moved only by the
    conditional updates of claim and release.  Memory in MiB, disk in GiB.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255, unique=True)
    credential_digest = models.CharField(max_length=64, blank=True)  # SHA-256 of the agent's credential, hex
    enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=255, blank=True)
    forced_down = models.BooleanField(default=False)  # an operator says that it is down, whatever its agent says
    uptime = models.CharField(max_length=255, blank=True)  # as ``uptime`` prints it, measured with the audit
    availability_zone = models.CharField(max_length=255, default="nova")
    connected = models.BooleanField(default=False)
    last_seen_at = models.DateTimeField(null=True)
    contract_version = models.PositiveIntegerField(default=0)
    agent_version = models.CharField(max_length=40, blank=True)
    hypervisor_type = models.CharField(max_length=40, blank=True)
    hypervisor_version = models.PositiveIntegerField(default=0)
    hypervisor_hostname = models.CharField(max_length=255, blank=True)
    architecture = models.CharField(max_length=40, blank=True)
    host_ip = models.CharField(max_length=45, blank=True)
    cpu_info = models.JSONField(default=dict)
    cached_images = models.JSONField(default=list)
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
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class JoinToken(models.Model):
    """A one-time permission for one new agent to enrol."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of the token, hex
    host_name = models.CharField(max_length=255, blank=True)  # only this name may use it; empty: any
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.host_name or "any host"
