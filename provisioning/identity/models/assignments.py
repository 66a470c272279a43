"""Role assignments."""

from django.db import models
from django.db.models import Q

from provisioning.identity.models.directory import Domain, Group, Project, Role, User


def _once(actor: str, target: str, *columns: str) -> models.UniqueConstraint:
    """Return a constraint for one row of each actor, target, role and inheritance.

    Nulls are distinct, so each pair of actor and target needs its own constraint.
    """
    condition = Q(**{f"{actor}__isnull": False}) & (
        Q(system=True) if target == "system" else Q(**{f"{target}__isnull": False})
    )
    return models.UniqueConstraint(
        fields=[actor, *columns, "role", "inherited"],
        condition=condition,
        name=f"one_{actor}_{target}_role",
        violation_error_message=f"The {actor} already has this role on the {target}.",
    )


class RoleAssignment(models.Model):
    """A role of a user or group on a project, a domain or the system.

    ``inherited``: it applies to all projects below the target, but not to the target itself.
    """

    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.CASCADE)
    group = models.ForeignKey(Group, null=True, blank=True, on_delete=models.CASCADE)
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.CASCADE)
    domain = models.ForeignKey(Domain, null=True, blank=True, on_delete=models.CASCADE)
    system = models.BooleanField(default=False)
    role = models.ForeignKey(Role, on_delete=models.CASCADE)
    inherited = models.BooleanField(default=False)

    class Meta:
        constraints = [
            _once("user", "project", "project"),
            _once("user", "domain", "domain"),
            _once("user", "system"),
            _once("group", "project", "project"),
            _once("group", "domain", "domain"),
            _once("group", "system"),
            models.CheckConstraint(
                condition=Q(user__isnull=False, group=None) | Q(user=None, group__isnull=False),
                name="one_actor",
                violation_error_message="Choose either a user or a group.",
            ),
            models.CheckConstraint(
                condition=Q(project__isnull=False, domain=None, system=False)
                | Q(project=None, domain__isnull=False, system=False)
                | Q(project=None, domain=None, system=True, inherited=False),
                name="one_target",
                violation_error_message="Choose a project, a domain or the system. The system hands no roles down.",
            ),
        ]

    def __str__(self) -> str:
        actor = self.user_id or self.group_id
        return f"{actor} {self.role_id} {self.project_id or self.domain_id or 'system'}"
