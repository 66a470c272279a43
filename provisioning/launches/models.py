"""Leases of servers, launch templates with their versions, and snippets of cloud-config."""

import uuid

from django.db import models

from provisioning.compute.models import Instance


class InstanceLease(models.Model):
    """The time until which a server is kept."""

    instance = models.OneToOneField(Instance, primary_key=True, on_delete=models.CASCADE, related_name="lease")
    days = models.PositiveSmallIntegerField()  # length of the lease, and of each extension
    ends_at = models.DateTimeField()
    notify_at = models.DateTimeField()  # when the owner is to be notified of the end
    notified_at = models.DateTimeField(null=True)  # when the owner was notified of the end
    refused_at = models.DateTimeField(null=True)  # when the server could last not be deleted: it is locked
    fixed = models.BooleanField(default=False)  # required by a template: it can be extended but not removed

    class Meta:
        indexes = [
            models.Index(fields=["ends_at"], name="lease_end"),
            models.Index(fields=["notify_at"], name="lease_notice", condition=models.Q(notified_at=None)),
        ]
        verbose_name = "lease of a server"
        verbose_name_plural = "leases of servers"

    def __str__(self) -> str:
        return f"of {self.instance_id} until {self.ends_at:%Y-%m-%d %H:%M}"


class LaunchTemplate(models.Model):
    """A named plan of launches with versions."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField()
    user_id = models.UUIDField(null=True)  # who created it
    name = models.CharField(max_length=255)
    slug = models.CharField(max_length=64)  # of its link
    public = models.BooleanField(default=False)  # visible in all projects
    default_version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project_id", "slug"],
                name="launch_template_slug_of_project",
                violation_error_message="The project has a launch template with this link already.",
            ),
            models.UniqueConstraint(
                fields=["slug"],
                condition=models.Q(public=True),
                name="launch_template_slug_of_cloud",
                violation_error_message="There is a public launch template with this link already.",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class LaunchTemplateVersion(models.Model):
    """One version of a launch template; it does not change."""

    template = models.ForeignKey(LaunchTemplate, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    values = models.JSONField(default=dict)  # fields of plan.LaunchPlan that are not defaults
    locked = models.JSONField(default=list)  # names of fields that a launch cannot change
    asked = models.JSONField(default=list)  # names of fields that the page of the template shows first
    description = models.CharField(max_length=255, blank=True)
    user_id = models.UUIDField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["template", "number"], name="launch_template_version_once")]

    def __str__(self) -> str:
        return f"version {self.number}"


class Snippet(models.Model):
    """A piece of cloud-config that launches in a project can add to their user data."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField()
    name = models.CharField(max_length=64)
    description = models.CharField(max_length=255, blank=True)
    text = models.TextField()  # begins with #cloud-config
    user_id = models.UUIDField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project_id", "name"],
                name="snippet_of_project",
                violation_error_message="The project has a snippet with this name already.",
            )
        ]

    def __str__(self) -> str:
        return self.name
