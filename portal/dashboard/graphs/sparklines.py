"""Small graphs in lists, of the processor usage of servers and hosts and the used space of pools; one query for a
page.
"""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence

from django.utils.safestring import SafeString

from compute_agent.contract.samples import GUEST_SERIES, HOST_SERIES
from portal.dashboard.graphs.charts import JOINED
from portal.dashboard.words.markup import format_html
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.measures.pools import POOL_SERIES
from provisioning.measures.resolutions import DAY, HOUR
from provisioning.measures.selectors import LINE_POINTS, first_lines
from provisioning.volumes.models import StoragePool

HEIGHT = 10
"""Heights of a line, of two pixels each. With more of them, a list of a hundred lines has more bytes."""
_SPARK = (
    '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}"><path d="{}"/></svg>'
)
_ALONE = re.compile(r"M\d+ \d+(?=M|$)")
"""A point without neighbours, which is drawn as a dot."""


def of_servers(instances: Iterable[Instance]) -> dict[uuid.UUID, SafeString]:
    """Return server → the graph of its last hour, for servers with measures. One that is being built has none."""
    built = (instance for instance in instances if instance.vm_state != VmState.BUILDING)
    vcpus = {instance.id: int(instance.flavor["vcpus"]) for instance in built}
    return _drawn(vcpus, len(GUEST_SERIES))


def of_hosts(hosts: Iterable[Host]) -> dict[uuid.UUID, SafeString]:
    """Return host → the graph of its last hour, for hosts with measures."""
    return _drawn({host.id: host.vcpus_total for host in hosts}, len(HOST_SERIES))


def of_pools(pools: Iterable[StoragePool]) -> dict[uuid.UUID, SafeString]:
    """Return pool → the graph of its used space in the last day, for pools with measures."""
    return _drawn({pool.id: pool.total_gb for pool in pools}, len(POOL_SERIES), "Used in the last day", DAY)


def _drawn(
    sizes: Mapping[uuid.UUID, float], width: int, what: str = "Processor in the last hour", seconds: int = HOUR
) -> dict[uuid.UUID, SafeString]:
    """Draw the first series of each subject as a part of its size."""
    lines = first_lines(sizes, width=width, seconds=seconds) if sizes else {}
    return {
        subject: spark([None if value is None else 100 * value / max(sizes[subject], 1) for value in values], what)
        for subject, values in lines.items()
    }


def spark(percents: Sequence[float | None], what: str = "Processor in the last hour") -> SafeString:
    """Draw percentages from 0 to 100."""
    known = [value for value in percents if value is not None]
    if not known:
        return SafeString("")
    path, sign, before = "", "", None
    for x, value in enumerate(percents):
        y = None if value is None else HEIGHT - round(min(value, 100) * HEIGHT / 100)
        if y is not None and before is None:
            path, sign = f"{path}M{x} {y}", "l"
        elif y is not None and before is not None:  # differences, because they compress better
            path, sign = f"{path}{sign}1{y - before}" if y < before else f"{path}{sign}1 {y - before}", " "
        before = y
    title = f"{what}: now {known[-1]:.0f}{JOINED}%, at most {max(known):.0f}{JOINED}%"
    return format_html(_SPARK, LINE_POINTS - 1, HEIGHT, title, _ALONE.sub(r"\g<0>h0", path))
