"""The catalog: regions, services, endpoints, and which of them a project sees."""

import uuid

from django.db import models

from provisioning.identity.models.base import LONG
from provisioning.identity.models.directory import Project


class Region(models.Model):
    """A place that endpoints are in."""

    id = models.CharField(max_length=LONG, primary_key=True)
    description = models.TextField(blank=True)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    extra = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return self.id


class Service(models.Model):
    """A service of the catalog: this cloud's own ones and what an operator adds."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    type = models.CharField(max_length=LONG)
    name = models.CharField(max_length=LONG, blank=True)
    description = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    extra = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return self.name or self.type


class Policy(models.Model):
    """A text that services once read their rules from; Keystone, too, only keeps it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    type = models.CharField(max_length=LONG)
    blob = models.TextField()
    extra = models.JSONField(default=dict, blank=True)

    class Meta:
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return str(self.id)


class Endpoint(models.Model):
    """Where a service is.  In ``url``, ``$(public_url)s`` stands for this cloud's address, ``$(project_id)s`` for the
    token's project.
    """

    INTERFACES = ("public", "internal", "admin")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="endpoints")
    region = models.ForeignKey(Region, null=True, blank=True, on_delete=models.PROTECT)
    interface = models.CharField(max_length=8, choices=[(name, name) for name in INTERFACES])
    url = models.TextField()
    enabled = models.BooleanField(default=True)
    extra = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return self.url


class EndpointGroup(models.Model):
    """The endpoints that are as ``filters`` says: any of ``service_id``, ``region_id``, ``interface``, ``enabled``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=LONG)
    description = models.TextField(null=True, blank=True)
    filters = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.name


class ProjectEndpoint(models.Model):
    """An endpoint that the catalog of a project shows; where there is any, it shows no others."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "endpoint"], name="one_endpoint_of_project")]

    def __str__(self) -> str:
        return f"{self.project_id} {self.endpoint_id}"


class ProjectEndpointGroup(models.Model):
    """A group whose endpoints the catalog of a project shows; as ``ProjectEndpoint``."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    group = models.ForeignKey(EndpointGroup, on_delete=models.CASCADE)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "group"], name="one_endpoint_group_of_project")]

    def __str__(self) -> str:
        return f"{self.project_id} {self.group_id}"
