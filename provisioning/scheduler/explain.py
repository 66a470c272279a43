"""Describes a decision in one sentence for the server's owner, without names of hosts."""

from provisioning.scheduler.condition import are, hosts_in_words
from provisioning.scheduler.decision import Decision, FilterResult

NO_HOSTS = "There are no hosts in this cloud yet."


def funnel(decision: Decision) -> str:
    """Return how many hosts there were, and how many passed each filter that rejected some:

    ``12 hosts → 9 have enough memory → 0 have enough disk: 20 GiB requested, at most 14 GiB free.``
    """
    if not decision.hosts:
        return NO_HOSTS
    losing = [result for result in decision.filters if result.after < result.before]
    stops = [hosts_in_words(decision.hosts), *(f"{result.after} {result.words}" for result in losing)]
    if decision.suitable and not decision.ranked:
        suitable = f"{hosts_in_words(decision.suitable)} {are(decision.suitable)} suitable"
        return f"{suitable}, but the driver {decision.driver} chose none."
    if decision.suitable:
        return f"{' → '.join(stops)}." if losing else f"{stops[0]}, all suitable."
    return f"{' → '.join(stops)}: {why(losing[-1])}."


def why(result: FilterResult) -> str:
    """Return why a filter rejected hosts: the requested and the largest available amount, or the filter's reason."""
    if result.asked is None or result.after:
        return result.reason
    amounts = result.asked, result.most or 0
    requested, most = (in_words(amount, result.unit) for amount in amounts)
    if requested == most:  # equal only after rounding
        requested, most = (f"{amount} {result.unit}" for amount in amounts)
    return f"{requested} requested, at most {most} free"


def in_words(amount: int, unit: str) -> str:
    """Return ``20 GiB``; memory of 1 GiB and more is shown in GiB."""
    if unit == "MiB" and amount >= 1024:
        return f"{amount / 1024:.1f}".removesuffix(".0") + " GiB"
    return f"{amount} {unit}".rstrip()


def explain(decision: Decision) -> str:
    """Return why no host is suitable; empty if one is."""
    return "" if decision.ranked else funnel(decision)
