"""Addresses of migrations."""

from django.urls import path

from portal.api.compute import migrations

_OF_SERVER = "/v2.1/servers/<str:server_id>/migrations"

urlpatterns = [
    path("/v2.1/os-migrations", migrations.MigrationsView.as_view()),
    path(_OF_SERVER, migrations.ServerMigrationsView.as_view()),
    path(f"{_OF_SERVER}/<str:migration_id>", migrations.ServerMigrationView.as_view()),
    path(f"{_OF_SERVER}/<str:migration_id>/action", migrations.ServerMigrationActionView.as_view()),
]
