"""Differences between the interfaces of a guest and of its record."""

from typing import Any

from django.db import models

from provisioning.compute.models.instances import Instance
from provisioning.hosts.models import Host


class InterfaceDifference(models.Model):
    """An interface that only the guest or only the record has, or that was restored to the record.

    Kept until the difference is resolved, or an operator acknowledges a restored interface.
    """

    class Kind(models.TextChoices):
        """The kind of difference."""

        EXTRA = "extra", "only the guest has it"
        MISSING = "missing", "only the record has it"
        GIVEN_BACK = "given_back", "the server has it again"

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="interface_differences")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="interface_differences")
    mac_address = models.CharField(max_length=17)
    port_id = models.UUIDField(null=True, db_index=True)
    kind = models.CharField(max_length=10, choices=Kind)
    said: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    """The interface on the host (``GuestInterface``); empty when only the record contains the interface."""
    reason = models.CharField(max_length=255, blank=True)  # why the record was not changed, or how
    first_seen_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["instance", "mac_address"], name="interface_differs_once")]
        verbose_name = "interface difference"

    def __str__(self) -> str:
        return f"{self.mac_address} of {self.instance_id}"
