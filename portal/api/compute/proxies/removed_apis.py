"""What was removed from the Compute API and answers 410 since: nova-network's, cells', cloudpipe's resources …"""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.compute.proxies.refusals import gone

List = gone("GET")
ListAndMake = gone("GET", "POST")
Make = gone("POST")
Change = gone("PUT")
Item = gone("GET", "PUT", "DELETE")
ShowAndChange = gone("GET", "PUT")
ShowAndDelete = gone("GET", "DELETE")
ChangeAndDelete = gone("PUT", "DELETE")

ADDRESSES = {
    "os-agents": ListAndMake,
    "os-agents/<str:agent_id>": ChangeAndDelete,
    "os-cells": ListAndMake,
    "os-cells/capacities": List,
    "os-cells/detail": List,
    "os-cells/info": List,
    "os-cells/sync_instances": Make,
    "os-cells/<str:cell_id>": Item,
    "os-cells/<str:cell_id>/capacities": List,
    "os-certificates": Make,
    "os-certificates/<str:certificate_id>": List,
    "os-cloudpipe": ListAndMake,
    "os-cloudpipe/<str:cloudpipe_id>": Change,
    "os-fixed-ips/<str:fixed_ip>": List,
    "os-fixed-ips/<str:fixed_ip>/action": Make,
    "os-floating-ip-dns": List,
    "os-floating-ip-dns/<str:dns_domain>": ChangeAndDelete,
    "os-floating-ip-dns/<str:dns_domain>/entries/<str:dns_entry>": Item,
    "os-floating-ips-bulk": ListAndMake,
    "os-floating-ips-bulk/<str:bulk_host>": ShowAndChange,
    "os-fping": List,
    "os-fping/<str:server_id>": List,
    "os-networks/add": Make,
    "os-networks/<str:network_id>/action": Make,
    "os-security-group-default-rules": ListAndMake,
    "os-security-group-default-rules/<str:default_rule_id>": ShowAndDelete,
    "servers/<str:server_id>/consoles": ListAndMake,
    "servers/<str:server_id>/consoles/<str:console_id>": ShowAndDelete,
    "servers/<str:server_id>/os-virtual-interfaces": List,
}
"""Address below ``/compute/v2.1`` → view."""
urlpatterns: list[URLPattern] = [path(f"/v2.1/{address}", view.as_view()) for address, view in ADDRESSES.items()]
