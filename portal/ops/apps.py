"""Registers the operators' commands and the admin site with Django."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class OpsConfig(AppConfig):
    """Operators' admin pages and commands."""

    name = "portal.ops"
    label = "ops"


class NovellaAdminConfig(AdminConfig):
    """Django's admin with Novella's site."""

    default_site = "portal.ops.site.NovellaAdminSite"
