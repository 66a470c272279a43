"""``manage.py storage_pools``: the pools with their capacity, changes to them, and the placement of a volume."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.ops.tables import table
from provisioning.common.context import system_context
from provisioning.common.errors import NovellaError
from provisioning.hosts.models import Host
from provisioning.volumes.models import StoragePool
from provisioning.volumes.pools.placement import VolumeFit, would_fit
from provisioning.volumes.selectors.pools import backend_of, host_of, is_up, pool_named, pools
from provisioning.volumes.services.catalogue.pools import (
    admit_host,
    forget_pool,
    remove_host,
    set_enabled,
    set_frozen,
    update_pool,
)

HEAD = ("pool", "zone", "state", "total GiB", "free GiB", "promised", "of", "volumes")


class Command(BaseCommand):
    """Changes a pool if the arguments name one, and then lists all pools."""

    help = "List storage pools, change one, or show where a volume would be placed; --would-fit creates nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the pool and its changes, or a placement request."""
        parser.add_argument("pool", nargs="?", help="name, id, or HOST@DRIVER#POOL as in the list")
        parser.add_argument("--enable", action="store_true", help="schedule new volumes there")
        parser.add_argument("--disable", metavar="REASON", help="schedule no new volumes there")
        parser.add_argument("--freeze", action="store_true", help="refuse requests that change it")
        parser.add_argument("--thaw", action="store_true", help="allow requests that change it again")
        parser.add_argument("--forget", action="store_true", help="remove an empty pool that no host serves")
        parser.add_argument("--admit", metavar="HOST", help="allow a host to serve it, such as one that claims it")
        parser.add_argument("--remove", metavar="HOST", help="no longer allow a host to serve it")
        parser.add_argument("--reserved", type=int, metavar="PERCENT", help="the part that is reserved")
        parser.add_argument("--over-subscription", type=float, metavar="RATIO", help="how often the rest is promised")
        parser.add_argument("--zone", help="its availability zone; with --would-fit: the requested one")
        parser.add_argument("--would-fit", type=int, metavar="GIB", help="show the placement of a volume of this size")
        parser.add_argument("--type", default="", help="with --would-fit: its volume type (default: the cloud's)")
        parser.add_argument("--json", action="store_true", help="answer for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        """Apply the changes, then list."""
        try:
            if options["would_fit"] is not None:
                zone = options["zone"] or ""
                fit = would_fit(system_context(), options["would_fit"], volume_type=options["type"], zone=zone)
                self.stdout.write(fit_as_json(fit) if options["json"] else fit_as_text(fit))
                return
            if options["pool"]:
                change(pool_of(options["pool"]), options)
        except NovellaError as error:
            raise CommandError(error.message) from error
        rows = [row_of(pool) for pool in pools()]
        if options["json"]:
            self.stdout.write(json.dumps([dict(zip(HEAD, row, strict=True)) for row in rows], indent=2))
        else:
            self.stdout.write("\n".join(table(HEAD, rows)) if rows else "There are no storage pools.")


def pool_of(named: str) -> StoragePool:
    """Return the pool with this name, id or address. Raises CommandError for an ambiguous name."""
    matches = [pool for pool in pools() if named in {pool.name, str(pool.id), backend_of(pool)}]
    if len(matches) > 1:
        raise CommandError(f"{len(matches)} pools are called {named}: name one as HOST@DRIVER#POOL.")
    return matches[0] if matches else pool_named(named)


def change(pool: StoragePool, options: dict[str, Any]) -> None:
    """Apply the options to a pool."""
    values = {
        "reserved_percentage": options["reserved"],
        "max_over_subscription_ratio": options["over_subscription"],
        "availability_zone": options["zone"],
    }
    changes = {name: value for name, value in values.items() if value is not None}
    if changes:
        update_pool(pool, changes)
    if options["enable"] or options["disable"] is not None:
        set_enabled(pool, enabled=options["enable"], reason=options["disable"] or "")
    if options["freeze"] or options["thaw"]:
        set_frozen(pool, frozen=options["freeze"])
    if options["admit"]:
        admit_host(pool, host_named(options["admit"]))
    if options["remove"]:
        remove_host(pool, host_named(options["remove"]))
    if options["forget"]:
        forget_pool(pool)


def host_named(name: str) -> Host:
    """Return the host with this name. Raises CommandError."""
    host = Host.objects.filter(name=name).first()
    if host is None:
        raise CommandError(f"There is no host {name}.")
    return host


def row_of(pool: StoragePool) -> tuple[object, ...]:
    """Return a pool's line: amounts in GiB."""
    words = [
        *([] if is_up(pool) else ["does not answer"]),
        *(["has a fault"] if pool.warning else []),
        *(["frozen"] if pool.frozen else []),
        *([] if pool.enabled else [f"disabled: {pool.disabled_reason}".rstrip(": ")]),
    ]
    limit = pool.total_gb * (1 - pool.reserved_percentage / 100) * pool.max_over_subscription_ratio
    amounts = (round(pool.total_gb), round(pool.free_gb), pool.allocated_gb, round(limit), pool.volumes.count())
    return (host_of(pool), pool.availability_zone, ", ".join(words) or "in service", *amounts)


def fit_as_json(fit: VolumeFit) -> str:
    """Format the placement as JSON."""
    fits = [{"pool": name, "volumes": many, "room": left} for name, many, left in fit.pools]
    losses = {name: list(lost) for name, lost in fit.decision.losses.items()}
    return json.dumps({"fits": fit.fits, "sentence": fit.sentence, "pools": fits, "losses": losses}, indent=2)


def fit_as_text(fit: VolumeFit) -> str:
    """Format the placement as text: the number, the results of filters, and the number for each pool."""
    filters = [(each.name, each.before, each.after, each.reason) for each in fit.decision.filters]
    lines = [f"{fit.fits} such volumes would fit. {fit.sentence}", ""]
    lines += table(("filter", "before", "after", "why"), filters)
    if fit.pools:
        lines += ["", *table(("pool", "volumes", "room GiB"), fit.pools)]
    return "\n".join(lines)
