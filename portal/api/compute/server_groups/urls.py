"""URLs of server groups, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.server_groups import views

urlpatterns: list[URLPattern] = [
    path("/v2.1/os-server-groups", views.ServerGroupsView.as_view()),
    path("/v2.1/os-server-groups/<str:server_group_id>", views.ServerGroupView.as_view()),
]
