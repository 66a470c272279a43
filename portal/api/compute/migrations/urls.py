"""URLs of migrations, below ``/compute``."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.compute.migrations import views

_OF_SERVER = "/v2.1/servers/<str:server_id>/migrations"

urlpatterns: list[URLPattern] = [
    path("/v2.1/os-migrations", views.MigrationsView.as_view()),
    path(_OF_SERVER, views.ServerMigrationsView.as_view()),
    path(f"{_OF_SERVER}/<str:migration_id>", views.ServerMigrationView.as_view()),
    path(f"{_OF_SERVER}/<str:migration_id>/action", views.ServerMigrationActionView.as_view()),
]
