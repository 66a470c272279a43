"""The operators' admin site."""

from django.contrib import admin


class NovellaAdminSite(admin.AdminSite):
    """Django's admin in Novella's words."""

    site_header = "Novella operators"
    site_title = "Novella"
    index_title = "The cloud"
