"""Free capacity of the cloud: how many servers of each flavor fit now."""

import logging
from dataclasses import dataclass

from django.db import DatabaseError

from provisioning.common.values.ids import NOBODY
from provisioning.compute.flavors.sizes import flavor_copy
from provisioning.compute.launch.decisions import options_now
from provisioning.compute.launch.dry_run import imagined
from provisioning.compute.models import Flavor
from provisioning.compute.selectors.host_rows import host_states
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.scheduler import facts_needed, room_for

MOST_COUNTED = 9_999
MOST_FLAVORS = 30
"""Maximum number of flavors that are counted, smallest first."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlavorRoom:
    """A flavor and how many servers of it fit, at most MOST_COUNTED; None: a custom part of the scheduler failed."""

    flavor: Flavor
    fits: int | None

    @property
    def and_more(self) -> bool:
        return self.fits == MOST_COUNTED


def room_by_flavor() -> list[FlavorRoom]:
    """Return the enabled flavors, smallest first, each with the number of its servers that would fit if only they were
    launched; for operators.

    Counted by the scheduler's filters for a server without an image, in any zone.
    """
    flavors = list(Flavor.objects.filter(disabled=False).order_by("memory_mb", "vcpus", "root_gb", "id")[:MOST_FLAVORS])
    try:
        options = options_now()
        specs = [spec_of(imagined(NOBODY, flavor_copy(flavor, 0), None)) for flavor in flavors]
        needed = frozenset().union(*(facts_needed(spec, options) for spec in specs))
        hosts = host_states(needed)
        return [
            FlavorRoom(flavor, room_for(hosts, spec, options, MOST_COUNTED))
            for flavor, spec in zip(flavors, specs, strict=True)
        ]
    except DatabaseError:
        raise
    except Exception:
        log.exception("The scheduler could not count the free capacity for the flavors.")
        return [FlavorRoom(flavor, None) for flavor in flavors]
