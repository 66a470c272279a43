"""The third layer of a host's network: routers, external networks, and floating IPs."""

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, NetworkDocument, RouterDocument
from compute_agent.network.dhcp import dhcp_config
from compute_agent.network.kernel import links, names, tracking
from compute_agent.network.kernel.reach import Reach, reach_of
from compute_agent.network.kernel.underlay import Underlay
from compute_agent.network.routers import flows, gateways, kernel
from compute_agent.network.routers.advertise import Advertiser, Announcements, configuration, folder_of
from compute_agent.network.routers.forwards import RefusedForwardError, readable
from compute_agent.network.routers.machine import MachineNetworks
from compute_agent.network.routers.numbers import Numbers
from compute_agent.network.routers.plan import beyond, external_plan, is_external, legs_of, router_plan
from compute_agent.network.routers.records import ExternalPlan, Leg, RouterPlan
from compute_agent.network.routers.ruleset import external_ruleset, router_ruleset
from compute_agent.network.routers.spaces import Spaces
from compute_agent.network.state.desired import DesiredState, Touched
from compute_agent.network.state.parts import Part, for_each
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import RetryableHostError

log = logging.getLogger(__name__)

T = TypeVar("T")


class Routing(Part):
    """Maintains a namespace for each router and for each external network of a router."""

    def __init__(self, settings: AgentSettings, underlay: Underlay) -> None:
        """Numbers and files are stored under ``state_dir/network/routers``."""
        self._settings = settings
        self._underlay = underlay
        self._folder = folder_of(settings.state_dir.absolute() / "network")
        self._numbers = Numbers(self._folder / "numbers.json")
        self._dhcp_user = dhcp_config.choose(settings.dhcp_user)
        self._spaces = Spaces(settings.netns)
        self._announcements = Announcements()
        self._machine = MachineNetworks(self._folder / "machine", settings, underlay)
        self._reach = Reach()
        self._routers: dict[str, RouterPlan] = {}
        """The plans that this process has applied to the kernel."""
        self._incomplete: set[str] = set()
        """Routers that may lack an interface after a failure."""
        self._externals: dict[str, ExternalPlan] = {}
        self._advertised: dict[str, str] = {}
        self._refused: dict[str, list[str]] = {}
        """Errors of floating IPs, by id."""

    # --- the contract -----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Do nothing: routers share no objects."""

    def bring(self, desired: DesiredState, touched: Touched) -> None:
        """Create routers with their filters, then the links to external networks, then the routers' routes.

        Invalid parts of a floating IP are omitted (``check_floating_ip``).
        """
        floating, self._refused = readable(desired.floating_ips)
        desired = dataclasses.replace(desired, floating_ips=floating)
        changed = touched.everything
        if changed or any(kind == ROUTER for kind, _ in touched.subjects):
            reach = self._reach_now(desired)
            changed, self._reach = changed or reach != self._reach, reach
        works = [_Work(each) for each in desired.routers.values() if changed or self._concerns(each, desired, touched)]
        externals = sorted(self._externals_of(desired, touched, [each.router for each in works]))
        steps: list[Callable[[], None]] = [lambda: self._bring_gateways(desired)]
        steps += [lambda work=work: self._bring_router(work, desired, again=changed) for work in works]  # type: ignore[misc]
        steps += [lambda each=each: self._bring_external(each, desired, again=changed) for each in externals]  # type: ignore[misc]
        steps += [lambda work=work: self._bring_ways(work, desired) for work in works]  # type: ignore[misc]
        steps += [lambda each=each: self._bring_machine(each) for each in desired.networks.values()]  # type: ignore[misc]
        for_each(steps, lambda step: step())

    def drop(self, desired: DesiredState) -> None:
        leading = {each.external.network_id for each in desired.routers.values() if each.external is not None}
        for router_id in (set(self._routers) | self._with_files()) - set(desired.routers):
            self._advertiser(router_id).stop()
            self._routers.pop(router_id, None)
            self._advertised.pop(router_id, None)
        for network_id in set(self._externals) - leading:
            self._externals.pop(network_id)
        there = {self._spaces.name(names.ROUTER, each) for each in desired.routers}
        there |= {self._spaces.name(names.EXTERNAL, each) for each in leading & set(desired.networks)}
        self._announcements.keep_only_spaces(there)
        self._spaces.keep_only(names.ROUTER, desired.routers)
        self._spaces.keep_only(names.EXTERNAL, leading & set(desired.networks))
        self._numbers.keep_only(desired.routers)
        self._machine.keep_only(desired.networks)
        if not desired.routers:
            self._bring_gateways(desired)

    def announce(self, floating_ids: Collection[str]) -> None:
        """Announce the floating IPs among ``floating_ids`` that are on this host. Raises RetryableHostError."""
        for router in self._routers.values():
            external = self._externals.get(router.network_id)
            if external is not None:
                here = frozenset(each.address for each in router.floating if each.id in floating_ids)
                space = self._spaces.name(names.EXTERNAL, external.id)
                self._announcements.add(self._spaces.inside, space, external.leg, here & external.floating)

    def check(self, desired: DesiredState) -> list[str]:
        self._announcements.again(self._spaces.inside)
        lost = self._machine.lost(desired.networks)
        for_each(lost, lambda each: self._bring_machine(desired.networks[each]))
        return [f"the machine's route to network {each}" for each in lost] + self._check_routers(desired)

    def check_floating_ip(self, floating_id: str) -> None:
        """Raise RefusedForwardError if some part of a floating IP is not applied."""
        if wrong := self._refused.get(floating_id):
            raise RefusedForwardError(
                "The host cannot set up a part of this floating IP: traffic to that part is dropped.",
                detail="; ".join(wrong)[:500],
            )

    def _check_routers(self, desired: DesiredState) -> list[str]:
        broken = self._broken(desired)
        changed = self._reach != self._reach_now(desired)
        if not broken and not changed:
            return []
        lost = self._lost()
        for router_id in broken:
            if (last := self._routers.pop(router_id, None)) is not None:
                self._externals.pop(last.network_id, None)
            self._spaces.forget(self._spaces.name(names.ROUTER, router_id))
        for network_id in lost:
            self._spaces.forget(self._spaces.name(names.EXTERNAL, network_id))
        self.bring(desired, Touched(frozenset((ROUTER, each) for each in broken), everything=changed))
        return [f"router {each}" for each in sorted(broken)]  # empty if only the reachable networks changed

    # --- steps ------------------------------------------------------------------------------------------------------

    def _bring_gateways(self, desired: DesiredState) -> None:
        """Apply the aliases of routers between hosts."""
        between = [each for each in desired.networks.values() if each.segment.type == "vxlan" or each.peers]
        text = gateways.NOTHING
        if between:
            text = _checked(lambda: gateways.ruleset(between, self._underlay.address()))
        self._spaces.filter("", text)

    def _bring_router(self, work: "_Work", desired: DesiredState, *, again: bool) -> None:
        """Create a router and connect it to its networks. Its filters are created before its first interface."""
        number = self._numbers.of(work.router.id)
        plan = _checked(lambda: router_plan(desired, work.router, number, self._underlay.address()))
        last = self._routers.get(plan.id)
        space = self._spaces.name(names.ROUTER, plan.id)
        known = plan.neighbours | kernel.neighbours_back(plan.detours)
        config = _checked(lambda: _advertisements(plan, desired))
        same = last is not None and last == dataclasses.replace(plan, neighbours=last.neighbours)
        if same and not again and config == self._advertised.get(plan.id):
            if last != plan:
                self._spaces.inside(space, lambda: kernel.bring_neighbours(known))
                self._routers[plan.id] = plan
            return
        legs = legs_of(plan)
        joins = again or last is None or (legs_of(last), last.link) != (legs, plan.link) or plan.id in self._incomplete
        if joins:
            self._incomplete.add(plan.id)
            kernel.ensure_namespace(space)
        share = tracking.limit() // tracking.LARGEST_PART
        ruleset = _checked(lambda: router_ruleset(plan, self._reach, share))
        self._spaces.filter(space, ruleset)
        self._advertised[plan.id] = config
        work.plan = plan
        steps: list[Callable[[], None]] = []
        if joins:
            ends = {plan.link.router_end} if plan.link else set()
            self._spaces.inside(space, lambda: kernel.keep_only({leg.name for leg in legs} | ends))
            steps += [lambda leg=leg: kernel.ensure_leg(space, leg) for leg in legs]  # type: ignore[misc]
        steps.append(lambda: self._spaces.inside(space, lambda: kernel.bring_neighbours(known)))
        for_each(steps, lambda step: step())
        self._incomplete.discard(plan.id)

    def _bring_external(self, network_id: str, desired: DesiredState, *, again: bool) -> None:
        """Create an external network's namespace, which routes packets for floating IPs to their routers."""
        network = desired.networks[network_id]
        routers = [each.id for each in desired.routers.values() if is_external(each, network_id)]
        numbers = {each: self._numbers.of(each) for each in routers}
        plan = _checked(lambda: external_plan(desired, network, numbers, self._settings.host, self._underlay.address()))
        last = self._externals.get(network_id)
        if plan == last and not again:
            return
        space = self._spaces.name(names.EXTERNAL, network_id)
        joins = again or last is None or (last.leg, last.links) != (plan.leg, plan.links)
        if joins:
            kernel.ensure_namespace(space)
        self._spaces.filter(space, external_ruleset(plan, tracking.limit() // tracking.LARGEST_PART))
        if joins:
            kernel.ensure_leg(space, plan.leg)
            for router_id, link in plan.links:
                kernel.ensure_link(self._spaces.name(names.ROUTER, router_id), space, link)

        def inside() -> None:
            if joins:
                kernel.keep_only({plan.leg.name, *(link.external_end for _, link in plan.links)})
                kernel.answer_for_others(plan.leg.name)
            _refusals(space, kernel.bring_routes(plan.routes))

        self._spaces.inside(space, inside)
        self._externals[network_id] = plan
        new = plan.answering - (last.answering if last is not None else frozenset())
        self._announcements.keep_only(space, plan.leg.name, plan.answering)
        self._announcements.add(self._spaces.inside, space, plan.leg, new)

    def _bring_ways(self, work: "_Work", desired: DesiredState) -> None:
        """Set the routes of a router, now that all its interfaces exist."""
        plan = work.plan
        if plan is None:
            return
        last, space = self._routers.get(plan.id), self._spaces.name(names.ROUTER, plan.id)

        def inside() -> None:
            kernel.bring_own(plan.answering)
            kernel.bring_rules(plan.detours)
            _refusals(space, kernel.bring_routes((*plan.routes, *kernel.ways_back(plan.detours))))
            if last is not None:
                flows.forget(_moved(last, plan))
            self._advertiser(plan.id).ensure(self._advertised[plan.id])

        self._spaces.inside(space, inside)
        self._routers[plan.id] = plan
        own = (
            frozenset(address.partition("/")[0] for address in plan.gateway.addresses) if plan.gateway else frozenset()
        )
        if last is not None and last.gateway is not None and last.gateway != plan.gateway:
            self._announcements.keep_only(space, last.gateway.name, ())
        if plan.gateway is not None and (last is None or last.gateway != plan.gateway):
            self._announcements.add(self._spaces.inside, space, plan.gateway, own)

    def _bring_machine(self, network: NetworkDocument) -> None:
        """Connect the machine itself to an external network that ends there."""
        if not self._machine.concerns(network):
            return
        plan = self._externals.get(network.id)
        legs = [each.gateway for each in self._routers.values() if each.network_id == network.id and each.gateway]
        addresses = {address.partition("/")[0] for leg in legs for address in leg.addresses}
        self._machine.bring(network, frozenset(addresses | (plan.answering if plan is not None else frozenset())))

    # --- inside -----------------------------------------------------------------------------------------------------

    def _concerns(self, router: RouterDocument, desired: DesiredState, touched: Touched) -> bool:
        """Return whether anything that the router depends on may have changed."""
        last = self._routers.get(router.id)
        if last is None or any(kind == ROUTER for kind, _ in touched.subjects):  # other routers' networks count as well
            return True
        networks = [each.network_id for each in router.interfaces]
        networks += [each for network in networks for each in beyond(desired, router, network)]
        networks += [router.external.network_id] if router.external is not None else []
        floating_ids = {each.id for each in desired.floating_ips.values() if each.router_id == router.id}
        floating_ids |= {each.id for each in last.floating} | last.elsewhere
        return any(touched.includes(NETWORK, each) for each in networks) or any(
            touched.includes(FLOATING_IP, each) for each in floating_ids
        )

    def _externals_of(
        self, desired: DesiredState, touched: Touched, routers: Collection[RouterDocument]
    ) -> Iterator[str]:
        concerned = {each.external.network_id for each in routers if each.external is not None}
        concerned |= {last.network_id for each in routers if (last := self._routers.get(each.id)) and last.network_id}
        for network_id, network in desired.networks.items():
            leading = any(is_external(each, network_id) for each in desired.routers.values())
            if leading and (network_id in concerned or touched.includes(NETWORK, network.id)):
                yield network_id

    def _broken(self, desired: DesiredState) -> set[str]:
        """Return the routers that are incomplete or missing."""
        broken = set(desired.routers) - set(self._routers) | self._spaces.missing(names.ROUTER, desired.routers)
        lost = self._lost()
        masters = links.masters()
        for plan in self._routers.values():
            if self._spaces.changed(self._spaces.name(names.ROUTER, plan.id)):
                broken.add(plan.id)
            if any(masters.get(leg.name) != leg.bridge for leg in legs_of(plan)) or plan.network_id in lost:
                broken.add(plan.id)
            if self._advertised.get(plan.id) and self._advertiser(plan.id).running() is None:
                broken.add(plan.id)
        return broken & set(desired.routers)

    def _lost(self) -> set[str]:
        """Return the external networks whose namespace is missing or was changed by another process."""
        changed = {each for each in self._externals if self._spaces.changed(self._spaces.name(names.EXTERNAL, each))}
        return changed | self._spaces.missing(names.EXTERNAL, self._externals)

    def _reach_now(self, desired: DesiredState) -> Reach:
        bridges = {network.bridge for network in desired.networks.values()}
        return reach_of(self._settings, self._underlay.namespace, bridges) if desired.routers else self._reach

    def _advertiser(self, router_id: str) -> Advertiser:
        return Advertiser(self._folder / router_id, self._dhcp_user)

    def _with_files(self) -> set[str]:
        return {path.name for path in self._folder.glob("*-*") if path.is_dir()}


@dataclasses.dataclass
class _Work:
    """A router that is being updated."""

    router: RouterDocument
    plan: RouterPlan | None = None
    """None before the router is planned, and if nothing has to be changed."""


def _advertisements(plan: RouterPlan, desired: DesiredState) -> str:
    if not plan.enabled:
        return ""
    by_bridge: dict[str, NetworkDocument] = {network.bridge: network for network in desired.networks.values()}
    pairs: list[tuple[Leg, NetworkDocument]] = [(leg, by_bridge[leg.bridge]) for leg in plan.legs]
    return configuration(pairs)


def _moved(last: RouterPlan, plan: RouterPlan) -> set[str]:
    """Return the floating IPs whose target has changed or was removed."""
    now = {each.address: (each.fixed_address, each.forwards) for each in plan.floating}
    return {each.address for each in last.floating if now.get(each.address) != (each.fixed_address, each.forwards)}


def _refusals(space: str, refused: list[str]) -> None:
    if refused:
        log.warning("%s: the kernel rejects its routes to %s", space, ", ".join(refused))


def _checked(work: Callable[[], T]) -> T:
    """Run ``work`` on the contents of a document. Raises RetryableHostError for invalid contents."""
    try:
        return work()
    except ValueError as error:
        raise RetryableHostError("The host cannot apply the document of a router.", detail=str(error)) from error
