"""Base of the settings pages."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django.utils.functional import cached_property

from portal.dashboard.frame.pages import Page
from provisioning.identity.models import User
from provisioning.identity.selectors.lookups import existing

TABS = (
    ("dashboard:settings", "Profile"),
    ("dashboard:settings_password", "Password"),
    ("dashboard:settings_sessions", "Sessions and tokens"),
)


class SettingsPage(Page):
    """Base of the pages about the signed-in user, who is also the policy target."""

    section = "settings"
    everywhere = True

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        return {"user_id": self.context.user_id}

    def may(self, rule: str) -> bool:
        """Whether the policy allows the rule to the signed-in user, as owner of the account."""
        return self.allows(rule, self.target())

    @cached_property
    def user(self) -> User:
        return existing(User, self.context.user_id.hex if self.context.user_id else "")

    def page(self, template: str, context: Mapping[str, Any] | None = None, *, status: int = 200) -> HttpResponse:
        """Render a page with the tabs above it."""
        return super().page(template, {"tabs": TABS, "tab": self.own_page, **(context or {})}, status=status)

    def back(self) -> str:
        """Return this page, on which errors are shown."""
        return self.own_page or "dashboard:settings"
