"""Pages with graphs only: the targets of the spans' links without a script, which the script loads into the page."""

from collections.abc import Mapping
from typing import Any, cast

from django.http import HttpRequest, HttpResponse

from portal.dashboard.frame.pages import Page, PageRequest
from portal.dashboard.graphs import parts
from provisioning.measures.resolutions import Span
from provisioning.measures.selectors import host_with_id, pool_with_id


class GraphsPage(Page):
    """Base of the pages whose graphs other pages include."""

    def graphs(self, span: Span) -> Mapping[str, Any]:
        """Return the context of ``parts.TEMPLATE``, and ``title``, the name of the graphs' subject."""
        raise NotImplementedError

    def get(self, request: HttpRequest, span: str, **_: Any) -> HttpResponse:
        """Show the page, or only its graphs for the script."""
        graphs = self.graphs(parts.span_named(span))
        if cast("PageRequest", request).htmx:
            return self.part(parts.TEMPLATE, graphs)
        return self.page("dashboard/graphs/page.html", graphs)


class ProjectGraphs(GraphsPage):
    """The servers of the project together."""

    section = "overview"
    rule = parts.OF_PROJECT

    def graphs(self, span: Span) -> Mapping[str, Any]:
        return {**parts.project_graphs(self.context, span), "title": self.context.project_name}


class HostGraphs(GraphsPage):
    """The use of one host over the span."""

    rule = parts.OF_HOSTS
    everywhere = True

    def graphs(self, span: Span) -> Mapping[str, Any]:
        host = host_with_id(self.kwargs["host_id"])
        return {**parts.host_graphs(self.context, host, span), "title": host.name}


class PoolGraphs(GraphsPage):
    """The use of one storage pool over the span."""

    rule = parts.OF_HOSTS
    everywhere = True

    def graphs(self, span: Span) -> Mapping[str, Any]:
        pool = pool_with_id(self.kwargs["pool_id"])
        return {**parts.pool_graphs(self.context, pool, span), "title": pool.name}


class CloudGraphs(GraphsPage):
    """The use of all hosts over the span, added up."""

    rule = parts.OF_HOSTS
    everywhere = True

    def graphs(self, span: Span) -> Mapping[str, Any]:
        return {**parts.cloud_graphs(self.context, span), "title": "the cloud"}
