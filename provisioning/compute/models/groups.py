"""Host aggregates and server groups."""

import uuid

from django.db import models

from provisioning.hosts.models import Host


class Aggregate(models.Model):
    """A host aggregate; ``id`` is the API's number."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255, unique=True)
    availability_zone = models.CharField(max_length=255, blank=True)  # empty: does not change the zone of its hosts
    metadata = models.JSONField(default=dict, blank=True)  # text to text, without availability_zone
    hosts = models.ManyToManyField(Host, through="AggregateHost", related_name="aggregates")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class AggregateHost(models.Model):
    """Membership of a host in an aggregate."""

    aggregate = models.ForeignKey(Aggregate, on_delete=models.CASCADE, related_name="memberships")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="memberships")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["aggregate", "host"], name="host_once_in_aggregate")]

    def __str__(self) -> str:
        return f"{self.host_id} in {self.aggregate_id}"


class ServerGroup(models.Model):
    """A server group; its members are the instances that refer to it."""

    class Policy(models.TextChoices):
        """Nova's policies."""

        AFFINITY = "affinity"
        ANTI_AFFINITY = "anti-affinity"
        SOFT_AFFINITY = "soft-affinity"
        SOFT_ANTI_AFFINITY = "soft-anti-affinity"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    user_id = models.UUIDField()
    name = models.CharField(max_length=255)
    policy = models.CharField(max_length=20, choices=Policy)
    max_server_per_host = models.PositiveIntegerField(null=True)  # anti-affinity only; null: one
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name
