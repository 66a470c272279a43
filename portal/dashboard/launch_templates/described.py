"""The fields of a plan in words, for the pages of launch templates."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from portal.dashboard.launch.forms import OPENINGS, LaunchForm
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.compute.models import Flavor
from provisioning.images.selectors import usable_images_for
from provisioning.launches.cloud_config.builtin import BUILT_IN
from provisioning.launches.models import LaunchTemplateVersion
from provisioning.launches.plans.plan import FIELDS, LaunchPlan, values_of
from provisioning.launches.selectors import snippets_for
from provisioning.network import selectors as network

ALWAYS = ("name", "key_name", "count", "lease_days")
"""Fields that are listed even if they have no value."""


@dataclass(frozen=True, slots=True)
class Described:
    """A field of a plan: its value in words, and ``locked``, ``asked`` or an empty text."""

    name: str
    label: str
    value: str
    mode: str


def labels() -> dict[str, str]:
    """Return field → label, as in the wizard."""
    form = LaunchForm()
    return {name: str(form[name].label) for name in FIELDS}


def unused_in(plan: LaunchPlan) -> set[str]:
    """Return the fields whose values have no effect."""
    return set() if plan.on_volume else {"volume_size"}


def describe(
    context: RequestContext, plan: LaunchPlan, locked: Iterable[str] = (), asked: Iterable[str] = ()
) -> list[Described]:
    """Return the fields of a plan that have a value or a mode, in the order of the wizard."""
    modes = dict.fromkeys(asked, "asked") | dict.fromkeys(locked, "locked")
    shown = {*values_of(plan), *ALWAYS} - unused_in(plan) | {*modes}
    titles, words = labels(), _formatters(context, plan)
    return [
        Described(name, titles[name], words.get(name, _plain)(getattr(plan, name)), modes.get(name, ""))
        for name in FIELDS
        if name in shown
    ]


def describe_version(context: RequestContext, version: LaunchTemplateVersion, plan: LaunchPlan) -> list[Described]:
    return describe(context, plan, version.locked, version.asked)


def _formatters(context: RequestContext, plan: LaunchPlan) -> Mapping[str, Callable[[Any], str]]:
    """Return field → function that describes its value; ids that the caller cannot see are shown as they are."""
    images = {str(image.id): image.name for image in usable_images_for(context)} if plan.image else {}
    flavors = dict(Flavor.objects.filter(flavorid=plan.flavor).values_list("flavorid", "name")) if plan.flavor else {}
    networks = {str(each.id): str(each) for each in network.networks_to_choose(context)} if plan.networks else {}
    groups = (
        {str(each.id): str(each) for each in network.security_groups_to_choose(context)} if plan.security_groups else {}
    )
    snippets = {str(each.id): each.name for each in snippets_for(context)} if plan.snippets else {}
    snippets |= {key: each.title for key, each in BUILT_IN.items()}
    titles = {key: str(label) for key, label in OPENINGS}

    def named(known: Mapping[str, str]) -> Callable[[Any], str]:
        return lambda keys: ", ".join(known.get(key, key) for key in keys) or "none"

    return {
        "image": lambda key: images.get(key, key) or "none",
        "flavor": lambda key: flavors.get(key, key) or "none",
        "networks": named(networks),
        "security_groups": named(groups),
        "snippets": named(snippets),
        "openings": named(titles),
        "disks": lambda disks: (
            ", ".join(" ".join(filter(None, (bdi(each.name), f"{each.size_gb} GiB", each.mount))) for each in disks)
            or "none"
        ),
        "tags": lambda tags: ", ".join(tags) or "none",
        "metadata": lambda pairs: ", ".join(f"{key}={value}" for key, value in pairs.items()) or "none",
        "lease_days": lambda days: f"after {days} day{'s' * (days > 1)}" if days else "never",
        "user_data": lambda text: f"{len(text.splitlines())} lines" if text else "none",
    }


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "", (), {}) else str(value)
