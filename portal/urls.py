"""Root routing: every face under its own prefix, all on one port."""

from django.urls import URLPattern, URLResolver

urlpatterns: list[URLPattern | URLResolver] = []
