"""Where the data of volumes lies."""

import uuid

from django.db import models

from provisioning.hosts.models import DEFAULT_ZONE, Host


class StoragePool(models.Model):
    """A place for volumes as hosts say it, and what operators want of it.

    ``total_gb`` and ``free_gb`` are measured by hosts; ``allocated_gb`` is the sum of the volumes' sizes, moved only by
    the conditional updates of claim and release.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255)
    driver = models.CharField(max_length=20)  # nbd dir rbd fake
    shared = models.BooleanField(default=False)  # every host that serves it reaches all its data
    total_gb = models.FloatField(default=0)
    free_gb = models.FloatField(default=0)
    allocated_gb = models.PositiveIntegerField(default=0)
    reserved_percentage = models.PositiveSmallIntegerField(default=0)
    max_over_subscription_ratio = models.FloatField(default=20.0)
    capabilities = models.JSONField(default=dict)  # text to text
    availability_zone = models.CharField(max_length=255, default=DEFAULT_ZONE)
    enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=255, blank=True)
    frozen = models.BooleanField(default=False)  # its volumes go on, and nothing is made, removed or changed
    warning = models.CharField(max_length=500, blank=True)
    hosts = models.ManyToManyField(Host, through="PoolHost", related_name="pools")
    created_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class PoolHost(models.Model):
    """A host that serves a pool, as its last audit said."""

    pool = models.ForeignKey(StoragePool, on_delete=models.CASCADE, related_name="servings")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="servings")
    last_seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pool", "host"], name="host_once_in_pool")]

    def __str__(self) -> str:
        return f"{self.pool_id} at {self.host_id}"
