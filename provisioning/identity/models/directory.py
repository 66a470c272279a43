"""Domains, projects, users, groups and roles, with Keystone's meanings."""

import uuid

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models import Q
from django.utils import timezone

from provisioning.identity.models.base import LONG, SHORT


class Domain(models.Model):
    """A name space of users, groups and projects; the first one is ``default``.

    Tokens for the domain itself that were issued before ``tokens_valid_after`` are void.
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
    """What owns instances, images and quotas.  Its tokens issued before ``tokens_valid_after`` are void."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    """None: a project of the first level, whose parent is its domain."""
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
    """A word on a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=LONG)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_project_tag")]

    def __str__(self) -> str:
        return self.name


class Role(models.Model):
    """A word that policy rules ask for.  A role of a domain stands in no token; it only brings what it implies."""

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
    """Who has ``prior`` has ``implied`` as well."""

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
    """A person or a program; also Django's user, so that the admin knows the same people.

    Tokens issued before ``tokens_valid_after`` are void.  ``options`` has Keystone's (``lock_password`` …).
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
        """Django's word for enabled."""
        return self.enabled

    is_staff = False
    """Set on ``request.user`` by the sign-in, which asks the policy; a user without a token operates nothing."""

    def has_perm(self, perm: str, obj: object = None) -> bool:
        """Operators may do what the admin offers."""
        return self.enabled and self.is_staff

    def has_module_perms(self, app_label: str) -> bool:
        return self.enabled and self.is_staff

    def set_password(self, raw_password: str | None) -> None:
        """Keep the hash and void every token issued until now: however a password is changed, they end."""
        super().set_password(raw_password)
        self.tokens_valid_after = timezone.now()


class Group(models.Model):
    """Users of one domain who get roles together."""

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
