"""The network of simulated hosts."""

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.messages import Leftover
from compute_agent.network.host_network import HostNetwork


class FakeNetwork(HostNetwork):
    """Notes what would be plugged, and touches nothing."""

    def __init__(self) -> None:
        self.plugged: set[str] = set()
        self.filtered: set[str] = set()
        self.interfaces: dict[str, list[str]] = {}
        """Ids of the ports of each instance that is plugged, in order."""

    def init_host(self) -> None:
        return None

    def plug(self, spec: InstanceSpec) -> None:
        self.plugged.add(spec.uuid)
        self.interfaces[spec.uuid] = [port.id for port in spec.ports]

    def apply_firewall(self, spec: InstanceSpec) -> None:
        self.filtered.add(spec.uuid)
        self.interfaces[spec.uuid] = [port.id for port in spec.ports]

    def unplug_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        if spec.uuid in self.plugged:
            self.interfaces[spec.uuid] = [interface.id for interface in spec.ports]

    def unplug(self, uuid: str) -> None:
        self.plugged.discard(uuid)
        self.filtered.discard(uuid)
        self.interfaces.pop(uuid, None)

    def restore(self, specs: list[InstanceSpec]) -> None:
        self.plugged = {spec.uuid for spec in specs}
        self.filtered = set(self.plugged)
        self.interfaces = {spec.uuid: [port.id for port in spec.ports] for spec in specs}

    def check(self) -> list[str]:
        return []

    def leftovers(self, guests: set[str]) -> list[Leftover]:
        return [Leftover(kind="plug", name=uuid, subject_id=uuid) for uuid in sorted(set(self.plugged) - guests)]
