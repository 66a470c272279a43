"""Live migration of a guest: commands for both hosts, and a call that controls it.

The receiving host prepares the guest's disks and interfaces, and listens. The sending host connects to it, and both go
through libvirt's five phases (begin, prepare, perform, finish, confirm). Memory and local disks travel through the same
authenticated connections. The portal moves the server in its records when the receiving host reports that the guest
runs there.
"""

from typing import ClassVar, Literal

from compute_agent.contract.base import Message
from compute_agent.contract.build import InstanceSpec

LIVE_MIGRATION = 5
"""The first version of the contract whose agents migrate guests live."""
RECEIVER_TRAIT = "CUSTOM_LIVE_MIGRATION_TARGET"
"""The trait of hosts whose hypervisor can receive running guests."""
UNDECIDED = "migration_undecided"
"""Error code of the sending host when the connection ended after the transfer: the guest is paused here,
and may run on the other host.
"""
TIME_LIMIT = "migration_time_limit"
"""Error code of the sending host when the migration has reached its time limit: the guest continues here."""
ADDRESS, PORT = "address", "port"
"""Details of the step ``listen`` of the receiving host."""


class ReceiveLiveRequest(Message, frozen=True):
    """Receive the running guest ``instance`` from the host with the id ``source``.

    ``finished``: the guest runs on this host. ``failed``: nothing is left here, and the guest has never run here.
    """

    since: ClassVar[int] = LIVE_MIGRATION
    instance: InstanceSpec
    source: str


class SendLiveRequest(Message, frozen=True):
    """Migrate the guest to the host that listens at ``address`` and ``tcp_port``.

    ``finished``: the guest has left, and its definition and disks stay here until a DestroyRequest. ``failed``: the
    guest continues here, except with the code ``UNDECIDED``; a DestroyRequest or a KeepLiveRequest follows then.
    Progress is reported in bytes of memory and local disks.
    """

    since: ClassVar[int] = LIVE_MIGRATION
    address: str
    tcp_port: int
    tls_hostname: str = ""  # the name in the other host's certificate; empty: simulated hosts, without TLS
    bandwidth_mb: int = 0  # MiB/s; 0: unlimited
    post_copy: bool = False  # whether the guest may continue on the other host before all memory is there
    time_limit: int = 0  # s; 0: none
    at_limit: Literal["abort", "complete"] = "abort"


class KeepLiveRequest(Message, frozen=True):
    """Resume the guest, because its undecided migration has failed on the other host."""

    since: ClassVar[int] = LIVE_MIGRATION


class ControlMigrationCall(Message, frozen=True):
    """Abort the migration that sends this guest, or complete it immediately: by post-copy if it is allowed, otherwise
    by pausing the guest until its memory is transferred. The answer is ``MigrationControlled``.
    """

    since: ClassVar[int] = LIVE_MIGRATION
    instance_id: str
    action: Literal["abort", "complete"]


class MigrationControlled(Message, frozen=True):
    """The hypervisor has accepted the request. The end of the migration is reported by its command."""
