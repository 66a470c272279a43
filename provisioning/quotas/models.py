"""Limits, usage and reservations. With counters of usage, a reservation is a single conditional update."""

from django.db import models


class QuotaLimit(models.Model):
    """A limit of a project, of a user in it, or the default when ``project_id`` is None. -1: unlimited."""

    project_id = models.UUIDField(null=True, blank=True)
    user_id = models.UUIDField(null=True, blank=True)
    resource = models.CharField(max_length=300)
    limit = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project_id", "resource"],
                condition=models.Q(user_id=None),
                name="one_limit",
                violation_error_message="The project already has a quota of this resource.",
            ),
            models.UniqueConstraint(
                fields=["resource"],
                condition=models.Q(project_id=None),
                name="one_default_limit",
                violation_error_message="There is a default quota of this resource already.",
            ),
            models.UniqueConstraint(fields=["project_id", "user_id", "resource"], name="one_limit_of_user"),
            models.CheckConstraint(
                condition=models.Q(user_id=None) | models.Q(project_id__isnull=False),
                name="users_in_projects",
                violation_error_message="A user's quota belongs to a project.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project_id} {self.resource} {self.limit}"


class QuotaUsage(models.Model):
    """Usage of a resource by a project: in use and reserved."""

    project_id = models.UUIDField()
    resource = models.CharField(max_length=300)
    in_use = models.IntegerField(default=0)
    reserved = models.IntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project_id", "resource"], name="one_usage"),
            models.CheckConstraint(
                condition=models.Q(in_use__gte=0, reserved__gte=0),
                name="usage_not_negative",
                violation_error_message="Less than nothing cannot be in use.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project_id} {self.resource} {self.in_use}+{self.reserved}"


class Reservation(models.Model):
    """Amount of a resource that an owner (an instance, an image …) holds; the row is deleted when it is released.

    ``user_id`` is the user for resources with limits of users (``limits.OF_USERS``), whose usage is the sum of these
    rows.
    """

    project_id = models.UUIDField()
    user_id = models.UUIDField(null=True)
    owner_id = models.UUIDField(db_index=True)
    resource = models.CharField(max_length=300)
    amount = models.IntegerField()
    committed = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner_id", "resource"], name="one_reservation")]
        indexes = [
            models.Index(
                fields=["project_id", "user_id"], condition=models.Q(user_id__isnull=False), name="held_for_user"
            )
        ]

    def __str__(self) -> str:
        return f"{self.owner_id} {self.resource} {self.amount}"
