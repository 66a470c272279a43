"""Hosts that are down, hosts with a wrong clock, and credentials that two machines use."""

from collections.abc import Iterator

from django.db.models import Count, Q
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.compute.states import VmState
from provisioning.doctor.finding import Finding, Severity, check, number
from provisioning.hosts.machines import claimed_twice
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import alive, long_ago, wrong_clock


@check("hosts", at_once=True)
def silent_hosts() -> Iterator[Finding]:
    """Find hosts without a heartbeat for longer than HOST_DOWN_AFTER, and those that are forced down. A host that is
    forced down and has no servers is only a note.
    """
    now = timezone.now()
    here = Q(instances__isnull=False) & ~Q(instances__vm_state=VmState.DELETED)
    rows = Host.objects.exclude(alive(now)).annotate(many=Count("instances", filter=here)).order_by("name")
    for host in rows:
        on_it = f"{number(host.many, 'server')} {'is' if host.many == 1 else 'are'} on it."
        since = f"since {host.last_seen_at:%Y-%m-%d %H:%M:%S}" if host.last_seen_at else "ever"
        sentence = f"It has not sent a heartbeat {since}; {on_it}{' It is forced down.' if host.forced_down else ''}"
        answers = host.last_seen_at is not None and host.last_seen_at >= long_ago(now)
        if answers:
            sentence = f"It is forced down, but its agent answers; {on_it}"
        severity: Severity = "note" if host.forced_down and not host.many else "warning"
        yield Finding(severity, f"host {host.name}", sentence, evidence=answers or host.last_seen_at)


@check("clocks", at_once=True)
def wrong_clocks() -> Iterator[Finding]:
    """Find hosts whose clock differs from the portal's by more than CLOCK_DIFFERENCE_LIMIT."""
    for host in Host.objects.filter(wrong_clock()).order_by("name"):
        ahead = round(host.clock_difference or 0)
        way = "ahead of" if ahead > 0 else "behind"
        sentence = f"Its clock is {number(abs(ahead), 'second')} {way} the portal's. Its work is not affected."
        yield Finding("warning", f"host {host.name}", sentence, evidence=ahead > 0)


WARNINGS = Prepared(lambda: Host.objects.order_by("name").values_list("name", "warnings"))


@check("host_warnings", at_once=True)
def host_warnings() -> Iterator[Finding]:
    """Report the warnings of hosts: missing features and failed setup, such as bridge filtering or a network."""
    for name, warnings in WARNINGS():
        for warning in warnings:
            yield Finding("warning", f"host {name}", warning, evidence=warning)


@check("second_machines", at_once=True)
def second_machines() -> Iterator[Finding]:
    """Find hosts whose credential another machine presented recently; it was refused."""
    for host in claimed_twice(timezone.now()).order_by("name"):
        at = f"{host.second_machine_at:%Y-%m-%d %H:%M:%S}"
        sentence = (
            f"A second machine, at {host.second_machine_address or 'an unknown address'}, used its credential and was"
            f" last refused at {at}: its state directory was copied."
        )
        yield Finding("warning", f"host {host.name}", sentence, evidence=host.second_machine_address)
