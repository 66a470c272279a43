"""Domains, projects, users, groups and roles, as in Keystone."""

import uuid

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models import Q
from django.utils import timezone

from provisioning.identity.models.base import LONG, SHORT


class Domain(models.Model):
    """A namespace of users, groups and projects; the first one is ``default``.

    Domain-scoped tokens issued before ``tokens_valid_after`` are invalid.
    """

    id = models.CharField(max_length=SHORT, primary_key=True)
    name = models.CharField(max_length=SHORT, unique=True)
    description = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    extra = models.JSONField(default=dict, blank=True)
    tokens_valid_after = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return self.name


class Project(models.Model):
    """The owner of instances, images and quotas.  Its tokens issued before ``tokens_valid_after`` are invalid."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    """None: a top-level project, whose parent is its domain."""
    name = models.CharField(max_length=SHORT)
    description = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    extra = models.JSONField(default=dict, blank=True)
    tokens_valid_after = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "name"], name="project_name_in_domain")]

    def __str__(self) -> str:
        return self.name


class ProjectTag(models.Model):
    """A tag of a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=LONG)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_project_tag")]

    def __str__(self) -> str:
        return self.name


class Role(models.Model):
    """A role that policy rules refer to.  A domain-specific role is not in tokens; it only adds its implied roles."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    domain = models.ForeignKey(Domain, null=True, blank=True, on_delete=models.PROTECT)
    name = models.CharField(max_length=LONG)
    description = models.TextField(blank=True)
    options = models.JSONField(default=dict, blank=True)
    extra = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=Q(domain=None),
                name="role_name",
                violation_error_message="There is a role of this name already.",
            ),
            models.UniqueConstraint(fields=["domain", "name"], name="role_name_in_domain"),
        ]

    def __str__(self) -> str:
        return self.name


class ImpliedRole(models.Model):
    """Users with the role ``prior`` also have ``implied``."""

    prior = models.ForeignKey(Role, on_delete=models.CASCADE, related_name="implies")
    implied = models.ForeignKey(Role, on_delete=models.CASCADE, related_name="implied_by")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["prior", "implied"], name="one_implication"),
            models.CheckConstraint(
                condition=~Q(prior=models.F("implied")),
                name="role_implies_another",
                violation_error_message="A role cannot imply itself.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.prior_id} {self.implied_id}"


class User(AbstractBaseUser):
    """A user of the Identity service; also Django's user model.

    Tokens issued before ``tokens_valid_after`` are invalid. ``options`` has Keystone's user options (``lock_password``
    …).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT)
    name = models.CharField(max_length=LONG)
    email = models.EmailField(blank=True)
    description = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    default_project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.SET_NULL)
    options = models.JSONField(default=dict, blank=True)
    extra = models.JSONField(default=dict, blank=True)
    password_expires_at = models.DateTimeField(null=True, blank=True)
    tokens_valid_after = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = BaseUserManager["User"]()

    USERNAME_FIELD = "name"

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "name"], name="user_name_in_domain")]

    def __str__(self) -> str:
        return self.name

    @property
    def is_active(self) -> bool:  # type: ignore[override]
        """Django's name for ``enabled``."""
        return self.enabled

    is_staff = False
    """Set on ``request.user`` by the sign-in, which checks the policy; False for a user without a token."""

    def has_perm(self, perm: str, obj: object = None) -> bool:
        """Operators may use all pages of the admin."""
        return self.enabled and self.is_staff

    def has_module_perms(self, app_label: str) -> bool:
        return self.enabled and self.is_staff

    def set_password(self, raw_password: str | None) -> None:
        """Store the hash and invalidate all tokens issued so far."""
        super().set_password(raw_password)
        self.tokens_valid_after = timezone.now()


class Group(models.Model):
    """Users of a domain that get roles together."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT)
    name = models.CharField(max_length=SHORT)
    description = models.TextField(blank=True)
    extra = models.JSONField(default=dict, blank=True)
    users = models.ManyToManyField(User, through="GroupMembership", related_name="member_of")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "name"], name="group_name_in_domain")]

    def __str__(self) -> str:
        return self.name


class GroupMembership(models.Model):
    """A user in a group."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE)
    user = models.ForeignKey(User, on_delete=models.CASCADE)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "user"], name="one_membership")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.group_id}"
