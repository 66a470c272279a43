"""Applies a plan to the kernel's filters, in one transaction, and ends connections that are no longer allowed."""

import ipaddress
import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as replace_struct

from compute_agent.contract.messages import Tracking
from compute_agent.network.filters import carried, groups, identity, owners
from compute_agent.network.filters.connections import forget_flows
from compute_agent.network.filters.identity import TABLE
from compute_agent.network.filters.narrowing import everything, refusals
from compute_agent.network.filters.plan import Plan, draw, group_key
from compute_agent.network.filters.tables import Chain, Elements, Table, changes, removal, whole
from compute_agent.network.kernel import nft, tracking
from compute_agent.network.kernel.nft import NftError
from compute_agent.network.routers.numbers import Numbers
from compute_agent.network.state.desired import DesiredState
from compute_agent.virt.errors import RetryableHostError

log = logging.getLogger(__name__)

FAMILIES = ("bridge", "inet")
PROBE = f"{TABLE}_probe"
"""A table that never exists: rules are tested in it."""


class RefusedGroupError(RetryableHostError):
    """Some rules of a security group cannot be applied. These rules allow nothing; all other rules are loaded."""


class Filters:
    """Filters of guests' traffic. Every method is thread-safe.

    Numbers of ports and zones do not change while they are in use, because packets are in transit when the tables
    change.
    """

    def __init__(self, folder: Path, share: Callable[[int], int] = tracking.share) -> None:
        """``folder``: where the numbers are stored across restarts. ``share``: function from the number of ports to the
        number of tracked connections that each port may begin.
        """
        self._share = share
        self._ports = Numbers(folder / "ports.json")
        self._zones = Numbers(folder / "zones.json")
        self._lock = threading.Lock()
        self._plan: Plan | None = None
        self._tables: Sequence[Table] = ()
        """The loaded tables, as far as this process knows."""
        self._refused: set[str] = set()
        """Rules, as text, that the kernel rejects."""
        self.unfinished = False
        """Whether the next ``apply`` has to end connections that are no longer allowed."""
        self.renders = 0
        """The number of changes to the kernel's tables."""

    def apply(self, desired: DesiredState) -> None:
        """Apply the desired filters. Raises RetryableHostError if something could not be applied.

        Only differences are loaded, in one transaction. A rule that the kernel rejects allows nothing. An interface
        passes no traffic if its own rules are rejected. All other rules are loaded; ``check_group`` reports rejected
        rules of a group.
        """
        with self._lock:
            self._ports.keep_only([each.port.id for each in desired.ports])
            plan = draw(
                desired,
                {each.port.id: self._ports.of(each.port.id) for each in desired.ports},
                {key: self._zones.of(key) for key in sorted(desired.networks)},
                self._share(len(desired.ports)),
            )
            if plan == self._plan and self._tables and installed():
                return
            self._bring(plan)
            self.unfinished = True
            left = dict.fromkeys(self._zones.others(desired.networks), everything)
            if refused := {**refusals(self._plan, plan), **left}:
                forget_flows(refused)
            self._zones.keep_only(desired.networks)  # last: a new network must not inherit these connections
            self._plan, self.unfinished = plan, False

    def tracking(self) -> Tracking | None:
        """Measure the connection tracking of the calling thread's namespace; None if nothing is tracked there."""
        entries, plan = tracking.entries("nf_conntrack_count", -1), self._plan
        if entries < 0:
            return None
        measured = Tracking(entries=entries, limit=tracking.limit(), share=plan.share if plan is not None else 0)
        if plan is None or not entries:
            return measured
        try:
            begun, looked = owners.count(self._owners(plan))
        except OSError as error:
            log.info("Connections cannot be counted by their owners: %s", error)
            return measured
        for port, many in begun.most_common(1):
            estimated = many * max(entries, looked) // looked
            measured = replace_struct(measured, largest=estimated, port=port)
        return measured

    def _owners(self, plan: Plan) -> dict[owners.Owner, str]:
        ids = self._ports.names()
        return {
            (plan.zones.get(port.bridge, 0), ipaddress.ip_address(address).packed): ids[port.number]
            for port in plan.ports
            for source in port.sources
            for address in (*source.v4, *source.v6)
            if "/" not in address and port.number in ids
        }

    def flows(self, port_ids: Collection[str]) -> bytes:
        """Return the tracked connections of these ports, for ``adopt`` on another host. Raises RetryableHostError."""
        return carried.encoded(carried.flows_of(self._tracked_ports(port_ids)))

    def adopt(self, port_ids: Collection[str], flows: bytes) -> None:
        """Track the connections that these ports had on another host (``flows``). Raises RetryableHostError."""
        entries = carried.decoded(flows)
        if entries:
            carried.add_flows(self._tracked_ports(port_ids), entries)

    def _tracked_ports(self, port_ids: Collection[str]) -> list[carried.TrackedPort]:
        """Return the ports among ``port_ids`` that are filtered on this host."""
        plan, ids = self._plan, self._ports.names()
        networks = self._zones.names()
        if plan is None:
            return []
        return [
            carried.TrackedPort(
                networks[zone],
                zone,
                frozenset(each for source in port.sources for each in (*source.v4, *source.v6) if "/" not in each),
            )
            for port in plan.ports
            if ids.get(port.number) in port_ids and (zone := plan.zones.get(port.bridge, 0)) in networks
        ]

    def intact(self) -> bool:
        """Return whether the kernel still has the loaded rules. If not, the next ``apply`` replaces all of them.

        Rules and elements are counted only after another process has changed rules.
        """
        with self._lock:
            try:
                if not installed():
                    return False
                if nft.untouched():
                    return True
                if all(_counts(each) == _meant(each) for each in self._tables):
                    nft.settle()
                    return True
            except NftError as error:
                log.warning("The filters cannot be read: %s", error)
            self._tables = ()
            return False

    def check_group(self, group_id: str) -> None:
        """Raise RefusedGroupError if some of the group's rules are not loaded."""
        plan, key = self._plan, group_key(group_id)
        if plan is None:
            return
        wrong = groups.unsayable(plan, key)
        chains = groups.table(plan).chains if self._refused else {}
        for way in groups.WAYS:
            chain = chains.get(f"group-{key}-{way}", Chain())
            wrong += [f"nftables refuses: {rule}" for rule in chain.rules if rule in self._refused]
        if wrong:
            raise RefusedGroupError(
                "The host cannot filter by some rules of this security group, so these allow nothing.",
                detail="; ".join(wrong)[:500],
            )

    def _bring(self, plan: Plan) -> None:
        tables = [identity.table(plan), groups.table(plan)]
        self.renders += 1
        try:
            self._load(without(tables, self._refused))
        except NftError as error:
            self._refused |= _refused(tables)
            log.warning("The kernel rejects filters: %s. Left out: %s", error, sorted(self._refused))
            try:
                self._load(without(tables, self._refused))
            except NftError as again:
                raise RetryableHostError("The host could not set the guests' filters.", detail=str(again)) from again

    def _load(self, desired: Sequence[Table]) -> None:
        """Load the differences of the tables; all of them if the kernel's tables differ from those that this process
        loaded.
        """
        before, self._tables = self._tables, ()
        differing = [changes(old, new) for old, new in zip(before, desired, strict=False)]
        texts = [text for text in differing if text is not None]
        text = "".join(texts)
        # A change fails if the tables are missing; without a change, this has to be checked.
        if before and len(texts) == len(desired) and (text or installed()):
            try:
                nft.load(text)
            except NftError as error:
                log.info("The filters are replaced as a whole: %s", error)
            else:
                self._tables = desired
                return
        nft.load(whole(desired))
        nft.settle()
        self._tables = desired


def without(tables: Sequence[Table], refused: Collection[str]) -> list[Table]:
    """Return the tables without rejected rules of groups. An interface whose own rules are rejected passes
    no traffic.
    """

    def kept(name: str, chain: Chain) -> Chain:
        if chain.hook or not any(rule in refused for rule in chain.rules):
            return chain
        if not name.startswith(("group-", "share-", "rate-")):
            return Chain(("drop",))
        return Chain([rule for rule in chain.rules if rule not in refused])

    if not refused:
        return [*tables]
    return [replace(each, chains={name: kept(name, chain) for name, chain in each.chains.items()}) for each in tables]


def _refused(tables: Sequence[Table]) -> set[str]:
    """Return the rules that the kernel rejects. Each is tested alone, with the sets and chains that it refers to."""
    result = set()
    for table in tables:
        for rule in {rule for chain in table.chains.values() if not chain.hook for rule in chain.rules}:
            words = rule.split()
            sets = {name: Elements(each.kind) for name, each in table.sets.items() if f"@{name}" in words}
            chains = {name: Chain() for name in table.chains if name in words}
            probe = Table(table.family, PROBE, sets, {**chains, "probe": Chain((rule,))})
            if not nft.takes(whole([probe])):
                result.add(rule)
    return result


def _counts(table: Table) -> Counter[tuple[str, str]]:
    """Count the rules of each chain and the elements of each set in the kernel. The key has the kind, because a chain
    and a set may have the same name.
    """
    result: Counter[tuple[str, str]] = Counter()
    for entry in nft.contents(table.family, table.name):
        ((kind, item),) = entry.items()
        if kind == "rule":
            result["chain", item["chain"]] += 1
        elif kind in {"set", "map"}:
            result["set", item["name"]] += len(item.get("elem", ()))
    return +result


def _meant(table: Table) -> Counter[tuple[str, str]]:
    sizes = {("chain", name): len(chain.rules) for name, chain in table.chains.items()}
    return +Counter(sizes | {("set", name): len(each.elements) for name, each in table.sets.items()})


def installed() -> bool:
    """Return whether both tables exist."""
    try:
        return nft.tables() >= {(family, TABLE) for family in FAMILIES}
    except NftError:
        return False


def remove() -> None:
    """Remove both tables from the calling thread's namespace; raises RetryableHostError."""
    try:
        nft.load("".join(f"{line}\n" for family in FAMILIES for line in removal(family, TABLE)))
    except NftError as error:
        raise RetryableHostError("The guests' filters could not be removed.", detail=str(error)) from error
