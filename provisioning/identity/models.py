"""Domains, projects, users, groups, roles, assignments, credentials and the catalog, with Keystone's meanings."""

import uuid

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models import Q
from django.utils import timezone

SHORT, LONG = 64, 255


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
            models.UniqueConstraint(fields=["name"], condition=Q(domain=None), name="role_name"),
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
            models.CheckConstraint(condition=~Q(prior=models.F("implied")), name="role_implies_another"),
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


def _once(actor: str, target: str, *columns: str) -> models.UniqueConstraint:
    """One row for each actor, target, role and way: nulls are distinct, so each pair has its own constraint."""
    condition = Q(**{f"{actor}__isnull": False}) & (
        Q(system=True) if target == "system" else Q(**{f"{target}__isnull": False})
    )
    return models.UniqueConstraint(
        fields=[actor, *columns, "role", "inherited"], condition=condition, name=f"one_{actor}_{target}_role"
    )


class RoleAssignment(models.Model):
    """The role of a user or a group on a project, a domain or the whole system.

    ``inherited``: not on the target itself but on all projects below it.
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
                condition=Q(user__isnull=False, group=None) | Q(user=None, group__isnull=False), name="one_actor"
            ),
            models.CheckConstraint(
                condition=Q(project__isnull=False, domain=None, system=False)
                | Q(project=None, domain__isnull=False, system=False)
                | Q(project=None, domain=None, system=True, inherited=False),
                name="one_target",
            ),
        ]

    def __str__(self) -> str:
        actor = self.user_id or self.group_id
        return f"{actor} {self.role_id} {self.project_id or self.domain_id or 'system'}"


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


class Region(models.Model):
    """A place that endpoints are in."""

    id = models.CharField(max_length=LONG, primary_key=True)
    description = models.TextField(blank=True)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    extra = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return self.id


class Service(models.Model):
    """A service of the catalog: this cloud's own ones and what an operator adds."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    type = models.CharField(max_length=LONG)
    name = models.CharField(max_length=LONG, blank=True)
    description = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    extra = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return self.name or self.type


class Endpoint(models.Model):
    """Where a service is.  In ``url``, ``$(public_url)s`` stands for this cloud's address, ``$(project_id)s`` for the
    token's project.
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
    """The endpoints that are as ``filters`` says: any of ``service_id``, ``region_id``, ``interface``, ``enabled``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=LONG)
    description = models.TextField(null=True, blank=True)
    filters = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.name


class ProjectEndpoint(models.Model):
    """An endpoint that the catalog of a project shows; where there is any, it shows no others."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "endpoint"], name="one_endpoint_of_project")]

    def __str__(self) -> str:
        return f"{self.project_id} {self.endpoint_id}"


class ProjectEndpointGroup(models.Model):
    """A group whose endpoints the catalog of a project shows; as ``ProjectEndpoint``."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    group = models.ForeignKey(EndpointGroup, on_delete=models.CASCADE)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "group"], name="one_endpoint_group_of_project")]

    def __str__(self) -> str:
        return f"{self.project_id} {self.group_id}"


class RegisteredLimit(models.Model):
    """A resource that a service counts, in a region or wherever the service is, and how much of it a project may have
    by default (unified limits); -1: any number.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    service = models.ForeignKey(Service, on_delete=models.CASCADE)
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
            ),
        ]

    def __str__(self) -> str:
        return self.resource_name


class Limit(models.Model):
    """How much of a registered limit's resource one project, or one domain, may have; -1: any number."""

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
            ),
        ]

    def __str__(self) -> str:
        return f"{self.registered_limit_id} {self.project_id or self.domain_id}"
