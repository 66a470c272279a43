"""The catalog: regions, services, endpoints, and the endpoints that projects see."""

import uuid

from django.db import models

from provisioning.identity.models.base import LONG
from provisioning.identity.models.directory import Project


class Region(models.Model):
    """A region of endpoints."""

    id = models.CharField(max_length=LONG, primary_key=True)
    description = models.TextField(blank=True)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    extra = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return self.id


class Service(models.Model):
    """A service of the catalog: one of this cloud's, or one that an operator added."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    type = models.CharField(max_length=LONG)
    name = models.CharField(max_length=LONG, blank=True)
    description = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    extra = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return self.name or self.type


class Policy(models.Model):
    """A policy text of ``/v3/policies``. It is only stored, as in Keystone."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    type = models.CharField(max_length=LONG)
    blob = models.TextField()
    extra = models.JSONField(default=dict, blank=True)

    class Meta:
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return str(self.id)


class Endpoint(models.Model):
    """The address of a service. In ``url``, ``$(public_url)s`` stands for this cloud's address, ``$(project_id)s`` for
    the token's project.
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
    """Endpoints that match ``filters``: any of ``service_id``, ``region_id``, ``interface``, ``enabled``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=LONG)
    description = models.TextField(null=True, blank=True)
    filters = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.name


class ProjectEndpoint(models.Model):
    """An endpoint that was added to the catalog of a project. If a project has any, its catalog contains only these
    endpoints.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "endpoint"], name="one_endpoint_of_project")]

    def __str__(self) -> str:
        return f"{self.project_id} {self.endpoint_id}"


class ProjectEndpointGroup(models.Model):
    """A group of endpoints in the catalog of a project, as ``ProjectEndpoint``."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    group = models.ForeignKey(EndpointGroup, on_delete=models.CASCADE)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "group"], name="one_endpoint_group_of_project")]

    def __str__(self) -> str:
        return f"{self.project_id} {self.group_id}"
