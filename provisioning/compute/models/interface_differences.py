"""Interfaces in which a guest and its record differ."""

from typing import Any

from django.db import models

from provisioning.compute.models.instances import Instance
from provisioning.hosts.models import Host


class InterfaceDifference(models.Model):
    """An interface that a guest has and its record has not, or the other way round, or one that was given back.

    Kept until the difference is gone, or an operator has acknowledged what was given back.
    """

    class Kind(models.TextChoices):
        """What differs."""

        EXTRA = "extra", "only the guest has it"
        MISSING = "missing", "only the record has it"
        GIVEN_BACK = "given_back", "the server has it again"

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="interface_differences")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="interface_differences")
    mac_address = models.CharField(max_length=17)
    port_id = models.UUIDField(null=True, db_index=True)
    kind = models.CharField(max_length=10, choices=Kind)
    said: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    """The interface as the host has it: ``GuestInterface``; empty when only the record has it."""
    reason = models.CharField(max_length=255, blank=True)  # why the record does not get it, or what it got
    first_seen_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["instance", "mac_address"], name="interface_differs_once")]
        verbose_name = "interface difference"

    def __str__(self) -> str:
        return f"{self.mac_address} of {self.instance_id}"
