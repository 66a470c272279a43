"""Registers the operators' commands and the admin site with Django."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig

from portal.ops import shown
from portal.ops.shown import SHOWN


class OpsConfig(AppConfig):
    """Operators' admin pages and commands."""

    name = "portal.ops"
    label = "ops"

    def ready(self) -> None:
        """Set the names of all models."""
        shown.name_all(SHOWN)


class NovellaAdminConfig(AdminConfig):
    """Django's admin with Novella's site."""

    default_site = "portal.ops.site.NovellaAdminSite"
