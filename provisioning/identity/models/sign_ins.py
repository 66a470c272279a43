"""Credentials, sessions, revoked tokens and trusts."""

import uuid

from django.db import models

from provisioning.identity.models.base import LONG, SHORT
from provisioning.identity.models.directory import Project, Role, User


class RevokedToken(models.Model):
    """A revoked token; the row may be deleted when the token would have expired."""

    audit_id = models.CharField(max_length=32, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.audit_id


class KnownAddress(models.Model):
    """A network from which a user has logged in. Attackers at other addresses cannot lock out the user there."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    method = models.CharField(max_length=16)  # "password" or "passcode"
    network = models.CharField(max_length=64)  # an address; for IPv6 its /64
    seen_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "method", "network"], name="one_known_address")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.method} {self.network}"


class AccessRule(models.Model):
    """Requests that an application credential is limited to: service, method and path pattern."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    service = models.CharField(max_length=SHORT)
    method = models.CharField(max_length=16)
    path = models.CharField(max_length=128)
    unused_since = models.DateTimeField(null=True)  # since when no application credential refers to it

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "service", "method", "path"], name="one_access_rule"),
        ]

    def __str__(self) -> str:
        return f"{self.service} {self.method} {self.path}"


class ApplicationCredential(models.Model):
    """A secret that authenticates a program as a user, for one project, with a subset of the user's roles there."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    name = models.CharField(max_length=LONG)
    description = models.TextField(blank=True)
    secret_hash = models.CharField(max_length=128)
    unrestricted = models.BooleanField(default=False)
    """Whether it may create and delete application credentials."""
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    roles = models.ManyToManyField(Role)
    access_rules = models.ManyToManyField(AccessRule)
    """Empty: all requests are allowed."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="application_credential_name")]

    def __str__(self) -> str:
        return self.name


class SignIn(models.Model):
    """A session of a browser, or of a program that gets tokens. Users can list and end their sessions.

    A browser has a row for each login. A program has one row for all its tokens; ``client`` distinguishes the programs
    of a user. Tokens refer to their row and are invalid without it, so a session is ended by deleting the row.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    browser = models.BooleanField(default=False)
    client = models.CharField(max_length=SHORT)  # SHA-256 that identifies a program; for a browser its id
    methods = models.JSONField(default=list)
    address = models.CharField(max_length=SHORT, blank=True)
    program = models.CharField(max_length=LONG, blank=True)
    """The User-Agent of the client."""
    application_credential = models.ForeignKey(ApplicationCredential, null=True, on_delete=models.CASCADE)
    project = models.ForeignKey(Project, null=True, on_delete=models.SET_NULL)
    """The project that the session last used."""
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField()
    """The time of the last token, to the minute."""
    expires_at = models.DateTimeField(db_index=True)
    """The expiry of its last token; the row may be deleted then."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "client"], name="one_sign_in")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.program}"


class Trust(models.Model):
    """A trust: the trustor delegates some roles in one project to the trustee (OS-TRUST).

    Without a project it delegates no roles. Only ``remaining_uses`` and ``used_up_at`` ever change.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    trustor = models.ForeignKey(User, on_delete=models.CASCADE, related_name="trusts_given")
    trustee = models.ForeignKey(User, on_delete=models.CASCADE, related_name="trusts_got")
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE)
    impersonation = models.BooleanField()
    """Whether its tokens act as the trustor rather than the trustee."""
    expires_at = models.DateTimeField(null=True)
    remaining_uses = models.PositiveIntegerField(null=True)
    """How many more tokens can be issued for the trust; None: unlimited."""
    used_up_at = models.DateTimeField(null=True)
    redelegated_from = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="redelegated")
    """The trust whose token was used to create this trust."""
    redelegation_count = models.PositiveIntegerField(default=0)
    """How many more times it can be redelegated in a chain."""
    extra = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["trustor", "trustee", "project", "impersonation", "expires_at"], name="one_trust"
            )
        ]

    def __str__(self) -> str:
        return f"{self.trustor_id} {self.trustee_id}"


class TrustRole(models.Model):
    """A role of a trust; None: the role was deleted, and the trust is invalid."""

    trust = models.ForeignKey(Trust, on_delete=models.CASCADE, related_name="trust_roles")
    role = models.ForeignKey(Role, null=True, on_delete=models.SET_NULL)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["trust", "role"], name="one_role_of_trust")]

    def __str__(self) -> str:
        return f"{self.trust_id} {self.role_id}"


class Credential(models.Model):
    """A secret that is stored for a user: ``ec2``, ``totp``, ``cert`` …; the blob is encrypted with the credential
    keys.

    The id of an EC2 credential is the SHA-256 of its access key, as in Keystone.
    """

    id = models.CharField(max_length=SHORT, primary_key=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.CASCADE)
    type = models.CharField(max_length=LONG)
    encrypted_blob = models.TextField()
    extra = models.JSONField(default=dict, blank=True)
    application_credential = models.ForeignKey(ApplicationCredential, null=True, on_delete=models.CASCADE)
    """The application credential whose token created this credential, which is deleted with it and has its limits."""
    trust = models.ForeignKey(Trust, null=True, on_delete=models.CASCADE)
    """The trust whose token created this credential, which is deleted with the trust and limited to it."""
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.id
