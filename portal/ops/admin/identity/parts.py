"""Inline records of users, groups, projects and roles, written through the services."""

from collections.abc import Callable
from typing import Any

from django.db.models import Model
from django.http import HttpRequest

from portal.ops.admin.base import TabularInline, Written
from portal.ops.admin.named import NamedChoices, NamedDeletions
from provisioning.identity import policy
from provisioning.identity.models import GroupMembership, ImpliedRole, ProjectTag, RoleAssignment
from provisioning.identity.services.assignments import grant, revoke_grant
from provisioning.identity.services.groups import add_to_group, remove_from_group
from provisioning.identity.services.projects import add_tag, remove_tag
from provisioning.identity.services.roles import imply, unimply

DEFAULT_DOMAIN = "default"


class Part(NamedChoices, TabularInline):
    """Rows that are added and removed, but not changed; ``giving`` and ``taking`` are the policy rules."""

    formset = NamedDeletions
    extra = 0
    giving = "novella:admin"
    taking = "novella:admin"

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return True

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return policy.allows(request.context, self.giving)  # type: ignore[attr-defined]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return policy.allows(request.context, self.taking)  # type: ignore[attr-defined]

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class RolePart(Part):
    """Role assignments."""

    model = RoleAssignment
    verbose_name = "role"
    verbose_name_plural = "roles"
    giving, taking = "identity:create_grant", "identity:revoke_grant"


class RolesOfSomebody(RolePart):
    """Role assignments of a user or a group."""

    fields = ("role", "project", "domain", "system", "inherited")
    autocomplete_fields = ("project",)


class RolesOnProject(RolePart):
    """Role assignments of users and groups on a project."""

    fields = ("user", "group", "role", "inherited")
    autocomplete_fields = ("user", "group")
    verbose_name_plural = "members"


class RolesOnDomain(RolesOnProject):
    """Role assignments of users and groups on a domain."""


class MemberPart(Part):
    """Users of a group."""

    model = GroupMembership
    autocomplete_fields = ("user",)
    verbose_name = "member"
    verbose_name_plural = "members"
    giving, taking = "identity:add_user_to_group", "identity:remove_user_from_group"


class ImpliedPart(Part):
    """Roles that a role implies."""

    model = ImpliedRole
    fk_name = "prior"
    verbose_name = "implied role"
    verbose_name_plural = "implied roles"
    giving, taking = "identity:create_implied_role", "identity:delete_implied_role"


class TagPart(Part):
    """Tags of a project."""

    model = ProjectTag
    verbose_name = "tag"
    verbose_name_plural = "tags"
    giving = taking = "identity:update_project_tags"


def target_of(row: RoleAssignment) -> dict[str, Any]:
    """Return actor and target of the assignment, as arguments of the services."""
    return {name: getattr(row, name) for name in ("user", "group", "project", "domain", "system", "inherited")}


_GIVE: dict[type[Model], Callable[[Any], object]] = {
    RoleAssignment: lambda row: grant(row.role, **target_of(row)),
    GroupMembership: lambda row: add_to_group(row.group, row.user),
    ImpliedRole: lambda row: imply(row.prior, row.implied),
    ProjectTag: lambda row: add_tag(row.project, row.name),
}
_TAKE: dict[type[Model], Callable[[Any], object]] = {
    RoleAssignment: lambda row: revoke_grant(row.role, **target_of(row)),
    GroupMembership: lambda row: remove_from_group(row.group, row.user),
    ImpliedRole: lambda row: unimply(row.prior, row.implied),
    ProjectTag: lambda row: remove_tag(row.project, row.name),
}


class WithParts(Written):
    """A page with inline rows, which are written through the services."""

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Default to the first domain for a new record."""
        return {"domain": DEFAULT_DOMAIN, **super().get_changeform_initial_data(request)}

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        formset.new_objects, formset.changed_objects, formset.deleted_objects = [], [], []
        for row in formset.deleted_forms:
            if row.instance.pk:
                _TAKE[formset.model](row.instance)
                formset.deleted_objects.append(row.instance)
        for row in formset.extra_forms:
            if row.has_changed() and row not in formset.deleted_forms:
                _GIVE[formset.model](row.save(commit=False))
