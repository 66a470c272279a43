"""Addresses of zones, services, hypervisors, hosts, aggregates and server groups, below ``/compute``."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.compute import aggregates, availability_zones, hosts, hypervisors, server_groups, services

_AGGREGATE = "/v2.1/os-aggregates/<str:aggregate_id>"
_HYPERVISORS = "/v2.1/os-hypervisors"
_HOST = "/v2.1/os-hosts/<str:host_name>"

urlpatterns: list[URLPattern] = [
    path("/v2.1/os-availability-zone", availability_zones.ZonesView.as_view()),
    path("/v2.1/os-availability-zone/detail", availability_zones.ZonesDetailView.as_view()),
    path("/v2.1/os-services", services.ServicesView.as_view()),
    path("/v2.1/os-services/<str:service_id>", services.ServiceView.as_view()),
    path(_HYPERVISORS, hypervisors.HypervisorsView.as_view()),
    path(f"{_HYPERVISORS}/detail", hypervisors.HypervisorsDetailView.as_view()),
    path(f"{_HYPERVISORS}/statistics", hypervisors.HypervisorStatisticsView.as_view()),
    path(f"{_HYPERVISORS}/<str:hypervisor_id>", hypervisors.HypervisorView.as_view()),
    path(f"{_HYPERVISORS}/<str:hypervisor_id>/uptime", hypervisors.HypervisorUptimeView.as_view()),
    path(f"{_HYPERVISORS}/<str:pattern>/search", hypervisors.HypervisorSearchView.as_view()),
    path(f"{_HYPERVISORS}/<str:pattern>/servers", hypervisors.HypervisorServersView.as_view()),
    path("/v2.1/os-hosts", hosts.HostsView.as_view()),
    path(_HOST, hosts.HostView.as_view()),
    path(f"{_HOST}/startup", hosts.HostPowerView.as_view()),
    path(f"{_HOST}/shutdown", hosts.HostShutdownView.as_view()),
    path(f"{_HOST}/reboot", hosts.HostRebootView.as_view()),
    path("/v2.1/os-aggregates", aggregates.AggregatesView.as_view()),
    path(_AGGREGATE, aggregates.AggregateView.as_view()),
    path(f"{_AGGREGATE}/action", aggregates.AggregateActionView.as_view()),
    path(f"{_AGGREGATE}/images", aggregates.AggregateImagesView.as_view()),
    path("/v2.1/os-server-groups", server_groups.ServerGroupsView.as_view()),
    path("/v2.1/os-server-groups/<str:server_group_id>", server_groups.ServerGroupView.as_view()),
]
