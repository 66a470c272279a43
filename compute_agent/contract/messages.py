"""Frames on the agent's WebSocket: one JSON object each, tagged by ``type``.

A connection begins with the agent's ``Enrol`` or ``Hello``. The portal answers ``Welcome`` or ``Refused``, and after
``Welcome`` sends the subjects that the host owns (``Ownership``). Then both sides send at any time. Delivery is at
least once in both directions: a ``Command`` is sent again until a ``CommandAck`` contains it, an ``AgentEvent`` until
an ``EventsAck`` covers its ``seq``.
"""

from typing import Literal, TypeVar

import msgspec

from compute_agent.contract.base import Message
from compute_agent.contract.build import Frozen, GuestInterface
from compute_agent.contract.calls import Call, CallBody, CallResult
from compute_agent.contract.certificates import Certificate, CertificateRequest, RenewCertificate
from compute_agent.contract.commands import CommandBody
from compute_agent.contract.cpu import Cpu, RunningCpu
from compute_agent.contract.samples import Samples
from compute_agent.contract.volume import KnownVolume, PoolState

T = TypeVar("T")

SERVER = "server"
"""The kind of servers as subjects."""

CONTRACT_VERSION = 5
"""Increased by a release that adds a message, or gives an existing one a meaning that older agents do not know.

Fields are only added, with defaults: both sides ignore unknown fields.  A new message has the version in ``since``
(``Message``), and is not sent to older agents.
"""
OLDEST_CONTRACT = CONTRACT_VERSION - 1
"""The oldest version of an agent that a portal accepts.

Portals are upgraded before agents, so the previous version is always accepted; others are refused with a reason.
"""
DOCUMENTS = 4
"""From this version, agents support documents of networks, routers, floating IPs and security groups in their present
form. An older agent would ignore the address group of a rule, and allow every source.

A host whose agent was older at its last connection gets no documents. It can connect again only with an upgraded agent.
"""
MAX_FRAME = 8 * 1024 * 1024
"""Limit of a message to an agent, in bytes."""
MAX_DOCUMENT = MAX_FRAME - 64 * 1024
"""Limit of a document, in bytes. It is lower than ``MAX_FRAME``, because a frame contains more than the document."""
REPORTS_BEGINNING = 2
"""From this version, agents report the beginning and the progress of commands."""


# ----- commands: portal -> agent, durable, ordered per subject --------------------------------------------------------


class Command(Message, frozen=True):
    """One durable command about one subject: a resource of some kind ("server") with its own id.

    ``generation`` is a fencing number; for a server it is the attempt. A command with an older generation than the
    newest that the host has seen is acknowledged and answered with ``failed``, code ``superseded``. Time limits are in
    seconds; None means no limit, as for a DestroyRequest. A command must begin within ``begin_within`` seconds after
    delivery. Once begun, it fails after ``timeout`` seconds without progress, or after ``total`` seconds.
    """

    id: str
    subject_kind: str
    subject_id: str
    generation: int
    body: CommandBody
    begin_within: float | None = None
    timeout: float | None = None
    total: float | None = None
    deadline: float = 0.0  # Unix time, 0: none; for agents of version 1, which know no other limit


# ----- agent -> portal ------------------------------------------------------------------------------------------------


class GuestState(Frozen, frozen=True):
    """One guest that the agent owns, as seen on the hypervisor."""

    instance_id: str
    attempt: int
    power_state: int  # Nova's numbers: 0 nostate, 1 running, 3 paused, 4 shutdown, 6 crashed, 7 suspended
    volumes: list[str] | None = None  # ids of the guest's volumes; None: not sent
    attachments: dict[str, str] | None = None  # volume id → attachment id; None: not sent
    interfaces: list[GuestInterface] | None = None  # running or defined, in the order of the guest; None: not sent


class Owned(Frozen, frozen=True):
    """One subject of the host and its newest generation."""

    subject_kind: str
    subject_id: str
    generation: int
    digest: str = ""  # of a document: the digest in its command, which also proves that the portal
    # sent the document; empty: not sent
    in_use: bool | None = None  # of a document: whether a guest of the host needs it; None: not sent
    vni: int | None = None  # of a VXLAN network: its number; None: not sent


class Enrol(Message, frozen=True):
    """The first message of a host that has no accepted credential yet. The agent generates a credential, stores it, and
    sends it once, with the join token.
    """

    join_token: str
    host: str
    credential: str
    contract: int = CONTRACT_VERSION
    agent_version: str = ""
    machine: str = ""  # identifies the machine; the credential is valid on this machine only


class Hello(Message, frozen=True):
    """The first message of every later connection, with the host's guests. The credential is in the header
    ``Authorization: Bearer`` of the handshake.
    """

    host: str
    contract: int = CONTRACT_VERSION
    agent_version: str = ""
    guests: list[GuestState] = []
    time: float | None = None  # Unix time of the host's clock
    machine: str = ""  # as in Enrol
    documents: list[Owned] | None = None  # of networks, routers, floating IPs and groups; None: not sent
    volumes: list[KnownVolume] | None = None  # at most MOST_KNOWN; None: not sent


class NewCredential(Message, frozen=True):
    """The answer to RenewCredential: a new secret, which the host has stored in addition to the old one."""

    credential: str


class CredentialStored(Message, frozen=True):
    """The host now uses its new credential; the old one is no longer needed."""


class Leftover(Frozen, frozen=True):
    """An object on the host that belongs to no known guest or other subject.

    ``kind``: ``domain`` (a guest whose spec is lost), ``folder``, ``disk``, ``root_disk`` (a disk in a pool), ``seed``,
    ``tap``, ``lease``, ``plug`` (recorded interfaces without a guest), ``foreign_domain`` (a guest that Novella did not
    create: it is reported by its name, and never changed).
    """

    kind: str
    name: str
    subject_kind: str = SERVER  # the kind of the owner
    subject_id: str = ""  # the id of the owner, if the host knows the owner
    generation: int | None = None  # the newest generation of the subject that the host has seen; None: unknown


MOST_LEFTOVERS = 500
"""Limit of the leftovers in one audit."""


class Repair(Frozen, frozen=True):
    """A failure that the host has repaired."""

    at: int  # Unix time of the host's clock
    what: str


MOST_REPAIRS = 20


class Tracking(Frozen, frozen=True):
    """Tracked connections of guests in the host's kernel, and the interface that has begun most of them."""

    entries: int
    limit: int
    share: int = 0  # connections that each interface may begin; 0: no limit
    largest: int = 0  # connections that the interface ``port`` has begun; an estimate if there are many
    port: str = ""  # the port id of the interface that has begun most connections


class ResourceAudit(Message, frozen=True):
    """Resources and usage of this host. Totals are the resources of the hypervisor, before ratios and
    reserved amounts.
    """

    vcpus: int
    memory_mb: int
    disk_gb: int
    memory_mb_used: int  # by the host as a whole
    disk_gb_used: int
    vcpus_used: int  # by guests
    running_vms: int
    hypervisor_type: str  # "QEMU", "KVM" or "fake"
    hypervisor_version: int  # as libvirt: major * 1,000,000 + minor * 1,000 + release
    hypervisor_hostname: str
    cpu_info: dict[str, str] = {}
    architecture: str = "x86_64"
    host_ip: str = ""
    cached_images: list[str] = []
    guests: list[GuestState] = []
    uptime: str = ""  # of the machine, as ``uptime`` prints it
    leftovers: list[Leftover] | None = None  # at most MOST_LEFTOVERS; None: not looked for
    warnings: list[str] | None = None  # missing requirements and unrepaired failures, for operators; None: not sent
    pools: list[PoolState] | None = None  # of volumes, that this host serves; None: not sent
    repairs: list[Repair] = msgspec.field(default_factory=list, name="mended")
    """Since the agent started, at most MOST_REPAIRS, the newest last."""
    certificates: str | None = None  # ``certificates.digest_of``; empty: some are missing; None: the host needs none
    documents: list[Owned] | None = None  # as in Hello; may omit the newest documents; None: not sent
    volumes: list[KnownVolume] | None = None  # as in Hello; None: not sent
    tracking: Tracking | None = None  # None: nothing tracked, or not sent
    traits: list[str] | None = None  # names of os-traits, sorted; None: not sent
    guest_cpu: Cpu | None = None  # the processor that the host can offer to guests; None: unknown, or not sent
    cpus: list[RunningCpu] | None = None  # of running guests, at most MOST_CPUS; None: not sent


class Heartbeat(Message, frozen=True):
    """Sent every ``Welcome.heartbeat_interval`` seconds from a task that waits for no hypervisor call."""

    time: float | None = None  # Unix time of the host's clock


class CommandAck(Message, frozen=True):
    """These commands are stored on the host and need not be sent again."""

    ids: list[str]


class AgentEvent(Frozen, frozen=True):
    """One event of a subject: a step began, a step ended, a command finished, a guest's power state changed.

    ``kind``:

    - ``begun``: the command no longer waits on the host; sent only for commands that run for a while
    - ``progress``: bytes have been copied for the command since its last report; for a volume ``detail`` may have
      ``done`` and ``total``, in bytes
    - ``step_started``: ``step`` began at ``started_at``; sent only for steps that last long enough to be shown
    - ``step``: ``step`` ended; ``started_at``, ``finished_at``, ``detail`` (e.g. ``{"cached": "true"}``)
    - ``finished``: the command succeeded; ``power_state`` is set for servers; ``detail``: see the command's request
    - ``failed``: the command failed and its steps are undone; ``error_code``, ``message``, ``retryable``; codes besides
      those of ``compute_agent.virt.errors``: ``superseded`` (the host has seen a newer generation, or the subject was
      removed), ``cancelled`` (a DestroyRequest stopped the build; its own ``finished`` follows), ``deadline_passed``
      (the command never began). With ``superseded``, ``detail["generation"]`` is the newest generation that the host
      has seen; if it is higher than the newest in the database, the database has lost data
    - ``posted``: the guest has posted ``detail["password"]``, encrypted, to its metadata service (no command)
    - ``lease``: the guest has received an address by DHCP, or released it: ``detail`` has ``port_id``, ``address`` and
      ``held`` (``true``, ``false``) (no command)
    - ``power``: the guest's power state is now ``power_state`` (no command; ``generation`` is the guest's)

    Times are Unix seconds of the host's clock.
    """

    seq: int  # 64 bits; increases per host, even after restarts and the loss of the state folder; may have gaps
    subject_kind: str
    subject_id: str
    generation: int
    kind: Literal["begun", "progress", "step_started", "step", "finished", "failed", "posted", "lease", "power"]
    command_id: str = ""
    step: str = ""
    started_at: float = 0.0
    finished_at: float = 0.0
    detail: dict[str, str] = {}
    power_state: int | None = None
    error_code: str = ""
    message: str = ""
    retryable: bool = False


class Events(Message, frozen=True):
    """Events in order of ``seq``. Several that are ready at the same time share a frame."""

    events: list[AgentEvent]


class CallReply(Message, frozen=True):
    """The answer to a ``Call``."""

    id: str
    result: CallResult


# ----- portal -> agent ------------------------------------------------------------------------------------------------


class Welcome(Message, frozen=True):
    """The host is connected; the unacknowledged commands follow.  Intervals are in seconds."""

    host: str
    host_id: str
    contract: int = CONTRACT_VERSION
    heartbeat_interval: float = 10.0
    audit_interval: float = 60.0
    sample_interval: float = 0.0  # of Samples; 0: the portal does not accept them


class Ownership(Message, frozen=True):
    """All subjects that the host owns according to the database.

    It follows ``Welcome`` immediately, before any command. A restarted agent resumes the work of the previous process
    only after this message. A command of another generation, or for a subject that the host no longer owns, is then
    superseded, and a partial build is undone. ``open``: the ids of the commands whose end the portal waits for, None if
    not sent. The agent treats every other command that waits, or would be resumed, as if its time limit had passed.
    """

    subjects: list[Owned] = []
    open: list[str] | None = None


class RenewCredential(Message, frozen=True):
    """Generate a new credential, store it and send it. The old credential is valid until ``CredentialStored``."""


class CredentialTaken(Message, frozen=True):
    """The portal has stored the new credential as well."""


class Refused(Message, frozen=True):
    """The connection is refused. ``final``: retries are useless until an operator acts."""

    reason: str
    final: bool = False


class EventsAck(Message, frozen=True):
    """The portal has recorded all events up to ``seq``."""

    seq: int


ToAgent = (
    Welcome
    | Ownership
    | Refused
    | Command
    | Call
    | EventsAck
    | RenewCredential
    | CredentialTaken
    | RenewCertificate
    | Certificate
)
ToPortal = (
    Enrol
    | Hello
    | Heartbeat
    | ResourceAudit
    | Samples
    | CommandAck
    | Events
    | CallReply
    | NewCredential
    | CredentialStored
    | CertificateRequest
)

_encoder = msgspec.json.Encoder()
_to_agent: msgspec.json.Decoder[ToAgent] = msgspec.json.Decoder(ToAgent)
_to_portal: msgspec.json.Decoder[ToPortal] = msgspec.json.Decoder(ToPortal)
_command_body: msgspec.json.Decoder[CommandBody] = msgspec.json.Decoder(CommandBody)
_event: msgspec.json.Decoder[AgentEvent] = msgspec.json.Decoder(AgentEvent)
_call_body: msgspec.json.Decoder[CallBody] = msgspec.json.Decoder(CallBody)
_call_result: msgspec.json.Decoder[CallResult] = msgspec.json.Decoder(CallResult)


class ContractError(ValueError):
    """A frame that does not follow the contract, with the decoder's reason."""


def encode(message: Message | AgentEvent) -> bytes:
    """Return a message or event as UTF-8 JSON."""
    return _encoder.encode(message)


def decode_to_agent(frame: bytes | str) -> ToAgent:
    """Decode a frame of the portal; raises ContractError."""
    return _decode(_to_agent, frame)


def decode_to_portal(frame: bytes | str) -> ToPortal:
    """Decode a frame of an agent; raises ContractError."""
    return _decode(_to_portal, frame)


def decode_command_body(data: bytes | str) -> CommandBody:
    """Decode a stored command; raises ContractError."""
    return _decode(_command_body, data)


def decode_event(data: bytes | str) -> AgentEvent:
    """Decode a stored event. Raises ContractError."""
    return _decode(_event, data)


def decode_call_body(data: bytes | str) -> CallBody:
    """Decode a stored call; raises ContractError."""
    return _decode(_call_body, data)


def decode_call_result(data: bytes | str) -> CallResult:
    """Decode a stored answer; raises ContractError."""
    return _decode(_call_result, data)


def _decode(decoder: msgspec.json.Decoder[T], data: bytes | str) -> T:
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise ContractError(str(error)) from error
