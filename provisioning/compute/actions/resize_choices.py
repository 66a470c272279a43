"""Flavors for a resize, each with the reason why it is not possible."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.actions.resize_checks import request_here, resized_flavor
from provisioning.compute.disks.block_devices import boots_from_volume
from provisioning.compute.flavors.sizes import quota_held
from provisioning.compute.launch.decisions import rank_on_host
from provisioning.compute.models import Flavor, Instance
from provisioning.compute.moves.begin import may_move, move_requests
from provisioning.compute.moves.targets import have_targets
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.images.models import Image
from provisioning.scheduler.decision import Decision
from provisioning.scheduler.explain import explain, why

WORDS = {"cores": "vCPUs", "ram": "MiB of memory"}


@dataclass(frozen=True, slots=True)
class SizeChoice:
    """A flavor other than the server's current one; ``reason``: why a resize would be rejected; empty if it would
    be accepted now.
    """

    flavor: Flavor
    reason: str = ""
    moves: bool = False
    """Whether the resize moves the server to another host, because its own host lacks the resources."""


def size_choices(context: RequestContext, instance: Instance) -> list[SizeChoice]:
    """Return the flavors that the caller may use, smallest first, with the checks of a resize; reads the host once."""
    flavors = [each for each in selectors.flavors_for(context) if each.flavorid != instance.flavor["flavorid"]]
    image = Image.objects.filter(id=instance.image_id).first() if instance.image_id else None
    local_root = not boots_from_volume(instance)
    copies: dict[str, dict[str, Any]] = {}
    reasons: dict[str, str] = {}
    for flavor in flavors:
        try:
            copies[flavor.flavorid] = resized_flavor(instance, flavor, image, local_root=local_root)
        except InvalidInputError as error:
            reasons[flavor.flavorid] = error.message
    unfit = _unfit_on_host(instance, copies)
    elsewhere = _fit_elsewhere(instance, {key: copies[key] for key in unfit})
    reasons |= {key: why for key, why in unfit.items() if key not in elsewhere} | _over_quota(context, instance, copies)
    return [SizeChoice(flavor, reasons.get(flavor.flavorid, ""), flavor.flavorid in elsewhere) for flavor in flavors]


def _fit_elsewhere(instance: Instance, copies: Mapping[str, dict[str, Any]]) -> set[str]:
    """Return the flavors for which another host has the resources."""
    if not copies or not settings.RESIZE_ON_OTHER_HOSTS or not may_move(instance):
        return set()
    return {
        key for key, fits in zip(copies, have_targets(move_requests(instance, copies.values())), strict=True) if fits
    }


def _unfit_on_host(instance: Instance, copies: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Return flavor id → why the server's host has no capacity for it."""
    host = instance.host
    if host is None:
        return {}
    specs = [request_here(spec_of(instance, flavor=flavor), instance, host, flavor) for flavor in copies.values()]
    decisions = zip(copies, rank_on_host(host.id, specs), strict=True)
    return {key: _lack(decision) for key, decision in decisions if not decision.ranked}


def _lack(decision: Decision) -> str:
    """Describe the result of the filter that rejected the only host."""
    if not decision.filters:
        return explain(decision)
    last = decision.filters[-1]
    return f"Its host does not {last.words}: {why(last)}." if last.asked is not None else f"Not possible: {why(last)}."


def _over_quota(context: RequestContext, instance: Instance, copies: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Return flavor id → which quota is too small for the difference to the current flavor."""
    if context.project_id != instance.project_id:
        return {}
    limits, result = selectors.limits_for(context), {}
    has = quota_held(instance.flavor)
    for key, flavor in copies.items():
        more = {name: amount - has[name] for name, amount in quota_held(instance.flavor, flavor).items()}
        for resource, words in WORDS.items():
            left = limits.left(resource)
            if left is not None and more[resource] > left:
                result[key] = f"Over quota: {left} {words} left, {more[resource]} more needed."
                break
    return result
