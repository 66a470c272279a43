"""The tab *Graphs* of an instance with another time span."""

import uuid
from dataclasses import replace
from typing import cast

from django.http import HttpRequest, HttpResponse

from portal.dashboard.frame.pages import PageRequest
from portal.dashboard.graphs import parts
from portal.dashboard.instances.tabs import GRAPHS
from portal.dashboard.instances.views import InstanceTab
from provisioning.compute import selectors as compute
from provisioning.identity import policy


class InstanceGraphs(InstanceTab):
    """The whole page, or only its graphs for the script."""

    def get(self, request: HttpRequest, instance_id: uuid.UUID, span: str = "") -> HttpResponse:
        chosen = parts.span_named(span)
        self.tab = replace(GRAPHS, read=lambda context, instance: parts.server_graphs(context, instance, chosen))
        if not cast("PageRequest", request).htmx:
            return super().get(request, instance_id)
        instance = compute.instance_for(self.context, instance_id)
        if not self.tab.seen_by(self.context, instance):
            policy.enforce(self.context, self.tab.rules[0])
        return self.part(parts.TEMPLATE, self.tab.read(self.context, instance))
