"""What people and programs sign in with, where they are signed in, and what they let others do."""

import uuid

from django.db import models

from provisioning.identity.models.base import LONG, SHORT
from provisioning.identity.models.directory import Project, Role, User


class RevokedToken(models.Model):
    """A token that was given back before its end; the row may go once the token would have expired."""

    audit_id = models.CharField(max_length=32, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.audit_id


class KnownAddress(models.Model):
    """A network from which somebody proved to be the user: who guesses elsewhere does not lock it out."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    method = models.CharField(max_length=16)  # "password" or "passcode"
    network = models.CharField(max_length=64)  # an address; of IPv6 its /64
    seen_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "method", "network"], name="one_known_address")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.method} {self.network}"


class AccessRule(models.Model):
    """A kind of request that an application credential may make, and no other: service, method and path pattern."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    service = models.CharField(max_length=SHORT)
    method = models.CharField(max_length=16)
    path = models.CharField(max_length=128)
    unused_since = models.DateTimeField(null=True)  # when no application credential was found to name it any more

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "service", "method", "path"], name="one_access_rule"),
        ]

    def __str__(self) -> str:
        return f"{self.service} {self.method} {self.path}"


class ApplicationCredential(models.Model):
    """A secret with which a program signs in as a user, for one project, with some of the user's roles there."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    name = models.CharField(max_length=LONG)
    description = models.TextField(blank=True)
    secret_hash = models.CharField(max_length=128)
    unrestricted = models.BooleanField(default=False)
    """Whether it may make and delete application credentials itself."""
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    roles = models.ManyToManyField(Role)
    access_rules = models.ManyToManyField(AccessRule)
    """Empty: every kind of request."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="application_credential_name")]

    def __str__(self) -> str:
        return self.name


class SignIn(models.Model):
    """A browser that is signed in, or a program that gets tokens: what people see as their sessions and can end.

    A browser has a row for each sign-in. A program has one row however many tokens it asks for: ``client`` tells
    programs of one user apart.  Tokens name their row and are void without it: to end a session is to delete the row.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    browser = models.BooleanField(default=False)
    client = models.CharField(max_length=SHORT)  # SHA-256 of what tells programs apart; a browser: the id
    methods = models.JSONField(default=list)
    address = models.CharField(max_length=SHORT, blank=True)
    program = models.CharField(max_length=LONG, blank=True)
    """What the client calls itself (User-Agent)."""
    application_credential = models.ForeignKey(ApplicationCredential, null=True, on_delete=models.CASCADE)
    project = models.ForeignKey(Project, null=True, on_delete=models.SET_NULL)
    """Where it was last."""
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField()
    """When a token was issued last, to the minute."""
    expires_at = models.DateTimeField(db_index=True)
    """When its last token ends; the row may go then."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "client"], name="one_sign_in")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.program}"


class Trust(models.Model):
    """A user, the trustor, lets another, the trustee, act with some of the trustor's roles in one project (OS-TRUST).

    Without a project it gives no role.  Nothing of it is ever changed but ``remaining_uses``.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    trustor = models.ForeignKey(User, on_delete=models.CASCADE, related_name="trusts_given")
    trustee = models.ForeignKey(User, on_delete=models.CASCADE, related_name="trusts_got")
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE)
    impersonation = models.BooleanField()
    """Whether tokens of it are the trustor's, not the trustee's."""
    expires_at = models.DateTimeField(null=True)
    remaining_uses = models.PositiveIntegerField(null=True)
    """How many tokens may still be got with it; None: any number."""
    used_up_at = models.DateTimeField(null=True)
    redelegated_from = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="redelegated")
    """The trust with whose token this one was made."""
    redelegation_count = models.PositiveIntegerField(default=0)
    """How long a chain of trusts may still be made from it."""
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
    """A role that a trust gives; None: that role is gone, and the trust is worth nothing without it."""

    trust = models.ForeignKey(Trust, on_delete=models.CASCADE, related_name="trust_roles")
    role = models.ForeignKey(Role, null=True, on_delete=models.SET_NULL)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["trust", "role"], name="one_role_of_trust")]

    def __str__(self) -> str:
        return f"{self.trust_id} {self.role_id}"


class Credential(models.Model):
    """A secret kept for a user: ``ec2``, ``totp``, ``cert`` …; the blob is encrypted with the credential keys.

    The id of an EC2 credential is the SHA-256 of its access key, as in Keystone.
    """

    id = models.CharField(max_length=SHORT, primary_key=True)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.CASCADE)
    type = models.CharField(max_length=LONG)
    encrypted_blob = models.TextField()
    extra = models.JSONField(default=dict, blank=True)
    application_credential = models.ForeignKey(ApplicationCredential, null=True, on_delete=models.CASCADE)
    """The one with which it was made: it falls with that and has no more roles than that."""
    trust = models.ForeignKey(Trust, null=True, on_delete=models.CASCADE)
    """The one whose token it was made with, alike."""
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.id
