"""Unified limits."""

import uuid

from django.db import models
from django.db.models import Q

from provisioning.identity.models.base import LONG
from provisioning.identity.models.catalog import Region, Service
from provisioning.identity.models.directory import Domain, Project


class RegisteredLimit(models.Model):
    """The default limit of a resource of a service for projects, in one region or in all; -1: unlimited."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    service = models.ForeignKey(  # keeps its id when the service is deleted, as in Keystone
        Service, on_delete=models.DO_NOTHING, db_constraint=False
    )
    region = models.ForeignKey(Region, null=True, blank=True, on_delete=models.CASCADE)
    resource_name = models.CharField(max_length=LONG)
    default_limit = models.IntegerField()
    description = models.TextField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["service", "region", "resource_name"], name="one_registered_limit"),
            models.UniqueConstraint(
                fields=["service", "resource_name"],
                condition=Q(region=None),
                name="one_registered_limit_of_all_regions",
                violation_error_message="The service already has a limit of this resource for all regions.",
            ),
        ]

    def __str__(self) -> str:
        return self.resource_name


class Limit(models.Model):
    """The limit of a registered limit's resource for one project or domain; -1: unlimited."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    registered_limit = models.ForeignKey(RegisteredLimit, on_delete=models.CASCADE, related_name="limits")
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.CASCADE)
    domain = models.ForeignKey(Domain, null=True, blank=True, on_delete=models.CASCADE)
    resource_limit = models.IntegerField()
    description = models.TextField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["registered_limit", "project"], name="one_limit_of_project"),
            models.UniqueConstraint(fields=["registered_limit", "domain"], name="one_limit_of_domain"),
            models.CheckConstraint(
                condition=Q(project__isnull=False, domain=None) | Q(project=None, domain__isnull=False),
                name="limit_of_project_or_domain",
                violation_error_message="A limit belongs to either a project or a domain.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.registered_limit_id} {self.project_id or self.domain_id}"
