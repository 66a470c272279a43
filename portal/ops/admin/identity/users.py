"""Users: accounts, passwords, sessions and locks."""

from django.contrib import admin
from django.db.models import Model

from portal.ops.admin.base import InDashboard, identity_rules, row_action
from portal.ops.admin.columns import column
from provisioning.common.context import RequestContext
from provisioning.identity.lockout.lockout import lift_lockout, lockout_of
from provisioning.identity.models import User
from provisioning.identity.services.users import revoke_all, set_user_enabled


@admin.register(User)
class UserAdmin(InDashboard):
    list_display = ("name", "domain", "email", "enabled", "locked", "default_project", "created_at")
    ordering = ("name", "domain")
    list_filter = ("enabled", "domain")
    search_fields = ("name", "email", "id__startswith")
    list_select_related = ("domain", "default_project")
    actions = ("enable", "disable", "sign_out", "unlock")
    fields = (
        "domain", "name", "password_expires_at", "email", "description", "default_project", "enabled", "locked",
        "created_at",
    )  # fmt: skip
    readonly_fields = ("locked",)
    rules = identity_rules("user") | dict.fromkeys(actions, "identity:update_user")

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.domain_id, "user_id": obj.id} if isinstance(obj, User) else {}

    locked = column(
        "locked out", lambda user: "after wrong passwords" if lockout_of(user) is not None else None, empty_value=""
    )

    @row_action("Enable", "Users enabled")
    def enable(self, context: RequestContext, user: User) -> None:
        set_user_enabled(user, enabled=True)

    @row_action("Disable and sign out", "Users disabled", question="Lock these users out?")
    def disable(self, context: RequestContext, user: User) -> None:
        set_user_enabled(user, enabled=False)

    @row_action("Sign out everywhere: void all tokens", "Users signed out")
    def sign_out(self, context: RequestContext, user: User) -> None:
        revoke_all(user)

    @row_action("Lift the lock after wrong passwords", "Locks lifted")
    def unlock(self, context: RequestContext, user: User) -> None:
        lift_lockout(user)
