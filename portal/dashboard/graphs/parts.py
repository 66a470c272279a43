"""The graphs of a server, a host, a pool, the project and the cloud, as context of ``TEMPLATE``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from portal.dashboard.graphs.charts import (
    BYTES,
    GIBIBYTES,
    MEBIBYTES,
    PER_SECOND,
    PERCENT,
    PLAIN,
    POINTS,
    VCPUS,
    Chart,
    Drawn,
    chart,
)
from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from provisioning.identity import policy
from provisioning.measures import selectors
from provisioning.measures.resolutions import SPANS, Span
from provisioning.measures.selectors import DEFAULT, Measures
from provisioning.volumes.models import StoragePool

OF_SERVER, OF_PROJECT, OF_HOSTS = "novella:servers:measures", "novella:measures", "novella:hosts:measures"
"""Policy rules for the graphs of a server, of a project, and of hosts, pools and the cloud."""
TEMPLATE = "dashboard/graphs/_graphs.html"


@dataclass(frozen=True, slots=True)
class Graphs:
    """The charts of a subject in a span, and the addresses of the other spans."""

    charts: Sequence[Chart]
    spans: Sequence[Mapping[str, Any]]
    url: str
    span: Span
    empty: str
    """Why there is nothing to draw; empty if there is something to draw."""
    own_page: bool
    """Whether the address belongs to the page that shows the graphs."""

    @property
    def refresh(self) -> int:
        """Seconds until they are drawn again."""
        return max(10, min(60, self.span.resolution.seconds))

    @property
    def has_peaks(self) -> bool:
        """Whether a chart has a line of maximums."""
        return any(line.peaks for chart in self.charts for line in chart.lines)

    @property
    def moments(self) -> str:
        """How clock.js shows the times below a chart."""
        return "day" if self.span.resolution.seconds > 60 else "clock"


def span_named(name: str) -> Span:
    """Return the span of an address; an unknown name is the default."""
    return SPANS.get(name, DEFAULT)


def server_graphs(context: RequestContext, instance: Instance, span: Span = DEFAULT) -> dict[str, Any]:
    """Return the graphs of a server that the caller sees."""
    measures = selectors.of_server(instance, span, points=POINTS)
    vcpus, memory = (float(instance.flavor[name]) for name in ("vcpus", "memory_mb"))
    charts = [
        chart(measures, "cpu", "Processor", PERCENT, [Drawn("Used", "cpu", 100 / vcpus)], top=100.0),
        chart(measures, "memory", "Memory", MEBIBYTES, [Drawn("Used", "memory")], top=memory),
        *_traffic(measures),
    ]
    empty = "" if instance.host_id else "The instance is on no host."
    return _graphs(charts, measures, "dashboard:instance_graphs_of", [instance.id], empty=empty, own_page=True)


def host_graphs(context: RequestContext, host: Host, span: Span = DEFAULT) -> dict[str, Any]:
    """Return the graphs of a host; without any if the caller may not see them."""
    if not policy.allows(context, OF_HOSTS):
        return {"graphs": None}
    measures = selectors.of_host(host.id, span, points=POINTS)
    charts = _of_machines(measures, host.vcpus_total, host.memory_mb_total, host.disk_gb_total)
    charts.insert(4, chart(measures, "load", "Load of one minute", PLAIN, [Drawn("Load", "load")]))
    return _graphs(charts, measures, "dashboard:host_graphs", [host.id])


def pool_graphs(context: RequestContext, pool: StoragePool, span: Span = DEFAULT) -> dict[str, Any]:
    """Return the graphs of a storage pool; the caller has checked ``OF_HOSTS``."""
    measures = selectors.of_pool(pool.id, span, points=POINTS)
    charts = [
        chart(measures, "used", "Used space", GIBIBYTES, [Drawn("Used", "used"), Drawn("Size", "size")]),
        chart(measures, "allocated", "Sizes of its volumes", GIBIBYTES, [Drawn("Allocated", "allocated")]),
    ]
    return _graphs(charts, measures, "dashboard:pool_graphs", [pool.id])


def cloud_graphs(context: RequestContext, span: Span = DEFAULT) -> dict[str, Any]:
    """Return the graphs of all hosts together; without any if the caller may not see them."""
    if not policy.allows(context, OF_HOSTS):
        return {"graphs": None}
    measures = selectors.of_cloud(span, points=POINTS)
    return _graphs(_of_machines(measures, *selectors.size_of_cloud()), measures, "dashboard:cloud_graphs", [])


def project_graphs(context: RequestContext, span: Span = DEFAULT) -> dict[str, Any]:
    """Return the graphs of the project's servers together; without any if the caller may not see them."""
    if context.project_id is None or not policy.allows(context, OF_PROJECT):
        return {"graphs": None}
    measures = selectors.of_project(context.project_id, span, points=POINTS)
    charts = [
        chart(measures, "cpu", "Processors", VCPUS, [Drawn("Used", "cpu")]),
        chart(measures, "memory", "Memory", MEBIBYTES, [Drawn("Used", "memory")]),
        *_traffic(measures, packets=False),
    ]
    return _graphs(charts, measures, "dashboard:project_graphs", [])


def _of_machines(measures: Measures, vcpus: int, memory_mb: int, disk_gb: int) -> list[Chart]:
    return [
        chart(measures, "cpu", "Processors", VCPUS, [Drawn("Used", "cpu")], top=float(vcpus)),
        chart(measures, "memory", "Memory", MEBIBYTES, [Drawn("Used", "memory")], top=float(memory_mb)),
        *_traffic(measures, packets=False),
        chart(measures, "disk", "Disk space", GIBIBYTES, [Drawn("Used", "disk")], top=float(disk_gb)),
    ]


def _traffic(measures: Measures, *, packets: bool = True) -> list[Chart]:
    charts = [
        chart(measures, "disk-bytes", "Disks", BYTES, [Drawn("Read", "disk_read"), Drawn("Written", "disk_write")]),
        chart(
            measures,
            "network-bytes",
            "Network",
            BYTES,
            [Drawn("Received", "network_in"), Drawn("Sent", "network_out")],
        ),
    ]
    if packets:
        charts += [
            chart(
                measures,
                "disk-requests",
                "Disk requests",
                PER_SECOND,
                [Drawn("Reads", "disk_reads"), Drawn("Writes", "disk_writes")],
            ),
            chart(
                measures,
                "packets",
                "Packets",
                PER_SECOND,
                [Drawn("Received", "packets_in"), Drawn("Sent", "packets_out")],
            ),
        ]
    return charts


def _graphs(
    charts: Sequence[Chart],
    measures: Measures,
    url_name: str,
    ids: Sequence[object],
    *,
    empty: str = "",
    own_page: bool = False,
) -> dict[str, Any]:
    spans = [
        {
            "label": span.label,
            "url": reverse(url_name, args=[*ids, span.name]),
            "shown": span is measures.span,
        }
        for span in SPANS.values()
    ]
    url = next(each["url"] for each in spans if each["shown"])
    why = (empty or "There are no measures for this time.") if measures.empty else ""
    return {"graphs": Graphs(charts, spans, str(url), measures.span, why, own_page)}
