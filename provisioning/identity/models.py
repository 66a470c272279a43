"""Domains, projects, users, roles, assignments and revocations, with Keystone's meanings."""

import uuid

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.utils import timezone


class Domain(models.Model):
    """A name space of users and projects; the first one is ``default``."""

    id = models.CharField(max_length=64, primary_key=True)
    name = models.CharField(max_length=64, unique=True)
    description = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.name


class Project(models.Model):
    """What owns instances, images and quotas.  Its tokens issued before ``tokens_valid_after`` are void."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT)
    name = models.CharField(max_length=64)
    description = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    tokens_valid_after = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "name"], name="project_name_in_domain")]

    def __str__(self) -> str:
        return self.name


class Role(models.Model):
    """``admin`` implies ``member``, ``member`` implies ``reader``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=64, unique=True)
    description = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.name


class User(AbstractBaseUser):
    """A person or a program; also Django's user, so that the admin knows the same people.

    Tokens issued before ``tokens_valid_after`` are void.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT)
    name = models.CharField(max_length=255)
    email = models.EmailField(blank=True)
    description = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    default_project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.SET_NULL)
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

    @property
    def is_staff(self) -> bool:
        """Whether the admin lets the user in: the ``admin`` role on any project."""
        return RoleAssignment.objects.filter(user=self, role__name="admin", project__enabled=True).exists()

    def set_password(self, raw_password: str | None) -> None:
        """Keep the hash and void every token issued until now: however a password is changed, they end."""
        super().set_password(raw_password)
        self.tokens_valid_after = timezone.now()

    def has_perm(self, perm: str, obj: object = None) -> bool:
        """Operators may do what the admin offers."""
        return self.enabled and self.is_staff

    def has_module_perms(self, app_label: str) -> bool:
        """As has_perm."""
        return self.enabled and self.is_staff


class RoleAssignment(models.Model):
    """A user's role on a project."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    role = models.ForeignKey(Role, on_delete=models.PROTECT)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "project", "role"], name="one_assignment")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role_id} {self.project_id}"


class RevokedToken(models.Model):
    """A token that was given back before its end; the row may go once the token would have expired."""

    audit_id = models.CharField(max_length=32, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.audit_id


class SignInFailure(models.Model):
    """Recent wrong passwords per name and address: throttling without an oracle."""

    key = models.CharField(max_length=64, primary_key=True)  # SHA-256 of name and address, hex
    count = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.key
