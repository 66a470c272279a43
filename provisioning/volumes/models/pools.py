"""Storage pools, and the hosts that serve them."""

import uuid

from django.db import models

from provisioning.hosts.models import DEFAULT_ZONE, Host


class StoragePool(models.Model):
    """A storage pool, as reported by hosts and configured by operators.

    ``total_gb`` and ``free_gb`` are measured by hosts. ``allocated_gb`` is the total size of its volumes and of
    ``DeletedData``; only ``placement`` changes it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255)
    driver = models.CharField(max_length=20)  # nbd dir rbd fake
    shared = models.BooleanField(default=False)  # all hosts that serve it reach the same data
    total_gb = models.FloatField(default=0)
    free_gb = models.FloatField(default=0)
    allocated_gb = models.PositiveIntegerField(default=0)
    reserved_percentage = models.PositiveSmallIntegerField(default=0)
    max_over_subscription_ratio = models.FloatField(default=20.0)
    capabilities = models.JSONField(default=dict)  # text → text
    availability_zone = models.CharField(max_length=255, default=DEFAULT_ZONE)
    enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=255, blank=True)
    doubt = models.CharField(
        max_length=255, blank=True, default="", db_default=""
    )  # reason why it is disabled until an operator enables it
    frozen = models.BooleanField(default=False)  # volumes stay usable, but cannot be changed
    warning = models.CharField(max_length=500, blank=True)
    hosts = models.ManyToManyField(Host, through="PoolHost", related_name="pools")
    created_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField(null=True)
    secret_digest = models.CharField(
        max_length=64, blank=True, default="", db_default=""
    )  # SHA-256 of the secret stored in the pool

    def __str__(self) -> str:
        return self.name


class PoolHost(models.Model):
    """A host that is admitted to a pool, until an operator removes it.

    The pool's name, capabilities and free space are taken from the reports of the first admitted host that is up.
    """

    pool = models.ForeignKey(StoragePool, on_delete=models.CASCADE, related_name="servings")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="servings")
    last_seen_at = models.DateTimeField()
    serving = models.BooleanField(default=True, db_default=True)  # False: its last audit did not contain the pool
    heard = models.BooleanField(
        default=True, db_default=True
    )  # False: it has not reported its volumes since the records were restored
    warning = models.CharField(
        max_length=500, blank=True, default="", db_default=""
    )  # a fault of the pool that this host reports

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pool", "host"], name="host_once_in_pool")]

    def __str__(self) -> str:
        return f"{self.pool_id} at {self.host_id}"


class DeletedData(models.Model):
    """Data of a deleted volume that clones need, in its pool, as measured by hosts.

    ``size_gb`` is counted in the pool, and in the project's quotas: in total and for the volume type. ``project_id`` is
    None if the project is unknown or deleted.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    pool = models.ForeignKey(StoragePool, on_delete=models.CASCADE, related_name="deleted_data")
    data_id = models.UUIDField()
    project_id = models.UUIDField(null=True, db_index=True)
    volume_type = models.ForeignKey("volumes.VolumeType", null=True, on_delete=models.SET_NULL, related_name="+")
    bytes = models.PositiveBigIntegerField(default=0)
    size_gb = models.PositiveIntegerField(default=0)
    absent_since = models.DateTimeField(null=True)  # since when the pool no longer has the data
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pool", "data_id"], name="deleted_data_once_in_pool")]

    def __str__(self) -> str:
        return f"{self.data_id} in {self.pool_id}"


class PoolClaim(models.Model):
    """A host that reports a pool without being admitted to it. It gets no information about the pool's volumes."""

    pool = models.ForeignKey(StoragePool, on_delete=models.CASCADE, related_name="claims")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="pool_claims")
    first_seen_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pool", "host"], name="claim_once_of_pool")]

    def __str__(self) -> str:
        return f"{self.host} claims {self.pool}"
