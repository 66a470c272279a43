"""Flavors and key pairs."""

from django.db import models


class Flavor(models.Model):
    """A flavor. ``memory_mb`` and ``swap_mb`` in MiB, ``root_gb`` and ``ephemeral_gb`` in GiB."""

    flavorid = models.CharField(max_length=255, unique=True)  # "id" in the API
    name = models.CharField(max_length=255, unique=True)
    description = models.TextField(blank=True)
    vcpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    root_gb = models.PositiveIntegerField()
    ephemeral_gb = models.PositiveIntegerField(default=0)
    swap_mb = models.PositiveIntegerField(default=0)
    rxtx_factor = models.FloatField(default=1.0)
    is_public = models.BooleanField(default=True)
    disabled = models.BooleanField(default=False)
    extra_specs = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class FlavorAccess(models.Model):
    """Access of a project to a flavor that is not public."""

    flavor = models.ForeignKey(Flavor, on_delete=models.CASCADE, related_name="access")
    project_id = models.UUIDField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["flavor", "project_id"], name="one_flavor_access")]

    def __str__(self) -> str:
        return f"{self.flavor_id} {self.project_id}"


class KeyPair(models.Model):
    """A user's public key; private keys are not stored."""

    user_id = models.UUIDField(db_index=True)
    name = models.CharField(max_length=255)
    type = models.CharField(max_length=8, default="ssh")
    public_key = models.TextField()
    fingerprint = models.CharField(max_length=64)  # MD5 with colons, as in Nova
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user_id", "name"], name="key_pair_name_of_user")]

    def __str__(self) -> str:
        return self.name
