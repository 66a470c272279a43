"""URLs of hosts, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.hosts import views

_HOST = "/v2.1/os-hosts/<str:host_name>"

urlpatterns: list[URLPattern] = [
    path("/v2.1/os-hosts", views.HostsView.as_view()),
    path(_HOST, views.HostView.as_view()),
    path(f"{_HOST}/startup", views.HostPowerView.as_view()),
    path(f"{_HOST}/shutdown", views.HostShutdownView.as_view()),
    path(f"{_HOST}/reboot", views.HostRebootView.as_view()),
]
