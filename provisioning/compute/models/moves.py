"""Allocations of servers that move between hosts."""

from django.db import models

from provisioning.compute.models.history import Migration
from provisioning.compute.models.instances import Instance
from provisioning.hosts.models import Host


class MoveAllocation(models.Model):
    """Resources of an instance on the second host of its move, in addition to its ``Allocation``, which is on the host
    of its record.

    One row for each instance, so it moves once at a time. The counters of hosts include both allocations.
    """

    instance = models.OneToOneField(Instance, on_delete=models.CASCADE, related_name="move_allocation")
    migration = models.OneToOneField(Migration, on_delete=models.CASCADE, related_name="allocation")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="move_allocations")
    attempt = models.PositiveIntegerField()  # the newest of the server on this host
    guest_attempt = models.PositiveIntegerField(null=True)  # of the guest on this host, if it differs
    vcpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    disk_gb = models.PositiveIntegerField()
    origin = models.JSONField(default=dict)  # of a cold move: fields of contract.moves.GuestOrigin
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.instance_id} on {self.host_id}"
