"""Frames on the agent's WebSocket: one JSON object each, tagged by ``type``.

A connection begins with the agent's ``Enrol`` or ``Hello``; the portal answers ``Welcome`` or ``Refused``, and behind a
``Welcome`` says what the host owns (``Ownership``).  After that both sides send when they have something to say.
Delivery is at least once in both directions: a ``Command`` is sent again until it is in a ``CommandAck``, an
``AgentEvent`` until its ``seq`` is covered by an ``EventsAck``.
"""

from typing import Literal, TypeVar

import msgspec

from compute_agent.contract.base import Message
from compute_agent.contract.build import Frozen, GuestInterface
from compute_agent.contract.calls import Call, CallBody, CallResult
from compute_agent.contract.certificates import Certificate, CertificateRequest, RenewCertificate
from compute_agent.contract.commands import CommandBody
from compute_agent.contract.volume import KnownVolume, PoolState

T = TypeVar("T")

SERVER = "server"
"""The kind of subject that a server is."""

CONTRACT_VERSION = 5
"""Raised by a release that adds a message, or gives an existing one a meaning that older agents do not know.

Fields are only ever added, with defaults: both sides ignore fields that they do not know.  A new message says ``since``
which version it exists (``Message``), and is withheld from older agents.
"""
OLDEST_CONTRACT = CONTRACT_VERSION - 1
"""The oldest version of an agent that a portal accepts.

Portals are upgraded before agents, so the previous version is always accepted; others are refused with the reason.
"""
DOCUMENTS = 4
"""Since this version agents take documents of networks, routers, floating IPs and security groups as they are now: an
older one would take a rule that names an address group for one that names nobody, and let everybody in.

A host whose agent was older when it was last here is told none: it is not let in until its agent is another.
"""
MAX_FRAME = 8 * 1024 * 1024
"""Bytes of the longest message that an agent takes."""
MAX_DOCUMENT = MAX_FRAME - 64 * 1024
"""Bytes of the longest document that a host is told: there is more in its frame."""
REPORTS_BEGINNING = 2
"""Since this version agents say when they begin a command and that it makes progress."""


# ----- commands: portal -> agent, durable, ordered per subject --------------------------------------------------------


class Command(Message, frozen=True):
    """One durable command about one subject: a thing of some kind ("server") with an id of its own.

    ``generation`` fences: a command of an older generation than the newest seen is acknowledged and answered with
    ``failed``, code ``superseded``.  That of a server is its attempt.
    All times are seconds, never a time of day, None: without limit; a DestroyRequest has none.  A command that is not
    begun ``begin_within`` seconds after it was handed over is not begun any more.  One that was begun ends when it has
    made no progress for ``timeout`` seconds, or has taken ``total``.
    """

    id: str
    subject_kind: str
    subject_id: str
    generation: int
    body: CommandBody
    begin_within: float | None = None
    timeout: float | None = None
    total: float | None = None
    deadline: float = 0.0  # Unix time, 0: none; for agents of version 1, which know nothing else


# ----- agent -> portal ------------------------------------------------------------------------------------------------


class GuestState(Frozen, frozen=True):
    """One guest the agent owns, as seen on the hypervisor."""

    instance_id: str
    attempt: int
    power_state: int  # Nova's numbers: 0 nostate, 1 running, 3 paused, 4 shutdown, 6 crashed, 7 suspended
    volumes: list[str] | None = None  # ids of the volumes that it has as disks; None: not said
    attachments: dict[str, str] | None = None  # volume → the attachment by which it has it; None: not said
    interfaces: list[GuestInterface] | None = None  # running or defined, in the order of the guest; None: not said


class Owned(Frozen, frozen=True):
    """One subject that the host holds and its newest generation."""

    subject_kind: str
    subject_id: str
    generation: int
    digest: str = ""  # of a document: what the command that told it was marked with, which also proves that the portal
    # has told it; empty: not said
    in_use: bool | None = None  # of a document: whether a guest of the host needs it; None: not said
    vni: int | None = None  # of a VXLAN network: its number; None: not said


class Enrol(Message, frozen=True):
    """First contact.  The agent makes its own credential, stores it, and sends it once together with the join token."""

    join_token: str
    host: str
    credential: str
    contract: int = CONTRACT_VERSION
    agent_version: str = ""
    machine: str = ""  # tells this machine from others; the credential holds for it only


class Hello(Message, frozen=True):
    """Every later contact; the credential travels in the ``Authorization: Bearer`` header of the handshake.  Lists the
    guests owned.
    """

    host: str
    contract: int = CONTRACT_VERSION
    agent_version: str = ""
    guests: list[GuestState] = []
    time: float | None = None  # Unix time of the host's clock
    machine: str = ""  # as in Enrol
    documents: list[Owned] | None = None  # what it was told of networks and the like; None: it does not say
    volumes: list[KnownVolume] | None = None  # at most MOST_KNOWN; None: it does not say


class NewCredential(Message, frozen=True):
    """The answer to RenewCredential: a new secret, which is on the host's disk beside the old one."""

    credential: str


class CredentialStored(Message, frozen=True):
    """From now on the host uses its new credential; the old one is not needed any more."""


class Leftover(Frozen, frozen=True):
    """One thing on the host that nothing there accounts for.

    ``kind``: ``domain`` (a guest whose description is lost), ``folder``, ``disk``, ``root_disk`` (one in a pool),
    ``seed``, ``tap``, ``lease``, ``plug`` (interfaces on record without a guest), ``foreign_domain`` (a guest that
    Novella did not make: told by its name, never touched).
    """

    kind: str
    name: str
    subject_kind: str = SERVER  # what kind of things leaves such
    subject_id: str = ""  # whose it is, as far as the host can tell
    generation: int | None = None  # the newest of the subject that the host has seen; None: it does not say


MOST_LEFTOVERS = 500
"""Things that one audit lists."""


class Mended(Frozen, frozen=True):
    """Something that had died by itself and was brought back."""

    at: int  # Unix time of the host's clock
    what: str


MOST_MENDED = 20


class Tracking(Frozen, frozen=True):
    """Connections of guests that the host's kernel tracks, and of the interface that has begun the most of them."""

    entries: int
    limit: int
    share: int = 0  # that each interface may begin; 0: any number
    largest: int = 0  # estimated when there are many
    port: str = ""  # the id of that interface


class ResourceAudit(Message, frozen=True):
    """What this host has and uses.  Totals are what the hypervisor may use, before ratios and reserved amounts."""

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
    warnings: list[str] | None = None  # what it lacks or cannot mend, in sentences for operators; None: it does not say
    pools: list[PoolState] | None = None  # of volumes, that this host serves; None: it does not say
    mended: list[Mended] = []  # since the agent started, at most MOST_MENDED, the newest last
    certificates: str | None = None  # ``certificates.digest_of`` what it has; empty: not all; None: it needs none
    documents: list[Owned] | None = None  # as in Hello, now and then; they may be older than what was told meanwhile
    volumes: list[KnownVolume] | None = None  # likewise
    tracking: Tracking | None = None  # None: it tracks nothing, or does not say
    traits: list[str] | None = None  # names of os-traits, sorted, now and then; None: it does not say


class Heartbeat(Message, frozen=True):
    """I am alive; sent every ``Welcome.heartbeat_interval`` seconds from a task that waits for no hypervisor call."""

    time: float | None = None  # Unix time of the host's clock


class CommandAck(Message, frozen=True):
    """These commands are stored on the host and need not be sent again."""

    ids: list[str]


class AgentEvent(Frozen, frozen=True):
    """One fact about a subject: a step began, a step ended, a command finished, a guest's power state changed.

    ``kind``:
      ``begun``         the command does not wait on the host any more; sent only for those that go on for a while
      ``progress``      bytes have moved for the command since its last report; for a volume ``detail`` may have
                        ``done`` and ``total``, in bytes
      ``step_started``  ``step`` began at ``started_at``; sent only for steps that last long enough to be watched
      ``step``          ``step`` ended; ``started_at``, ``finished_at``, ``detail`` (e.g. ``{"cached": "true"}``)
      ``finished``      the command ended well; ``power_state`` is set for servers; ``detail`` is what its request says
      ``failed``        the command ended badly and its steps are undone; ``error_code``, ``message``, ``retryable``;
                        besides the codes of ``compute_agent.virt.errors``: ``superseded`` (a newer generation was
                        commanded, or the subject was removed; ``detail["generation"]`` is the newest one that the
                        host has seen: above that of the records it proves that records are lost), ``cancelled`` (a
                        build stopped by a DestroyRequest, whose own ``finished`` follows), ``deadline_passed`` (never
                        begun)
      ``posted``        the guest has posted ``detail["password"]``, encrypted, to its metadata service (no command)
      ``lease``         the guest has taken an address by DHCP, or given it back: ``detail`` has ``port_id``,
                        ``address`` and ``held`` (``true``, ``false``) (no command)
      ``power``         the guest's power state is now ``power_state`` (no command; ``generation`` is the guest's)
    Times are Unix seconds of the host's clock.
    """

    seq: int  # 64 bits; rises per host, also over restarts and a lost state folder; numbers may be left out
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
    """Facts in order of ``seq``; several that became ready together travel together."""

    events: list[AgentEvent]


class CallReply(Message, frozen=True):
    """The answer to a ``Call``."""

    id: str
    result: CallResult


# ----- portal -> agent ------------------------------------------------------------------------------------------------


class Welcome(Message, frozen=True):
    """The connection stands; the commands not yet acknowledged follow.  Intervals are in seconds."""

    host: str
    host_id: str
    contract: int = CONTRACT_VERSION
    heartbeat_interval: float = 10.0
    audit_interval: float = 60.0


class Ownership(Message, frozen=True):
    """All that the host holds by the records.

    It comes right behind ``Welcome``, before any command.  An agent that has started anew waits for it before it goes
    on with what an earlier process began: a command of another generation, or for a subject that is not here any more,
    is superseded, and what a build has made is undone.  ``open`` are the ids of the commands whose end the portal waits
    for, None: it does not say; another one that has not begun, or goes on after a restart, comes too late.
    """

    subjects: list[Owned] = []
    open: list[str] | None = None


class RenewCredential(Message, frozen=True):
    """Make a new credential, store it and send it; the old one is good until ``CredentialStored``."""


class CredentialTaken(Message, frozen=True):
    """The portal knows the new credential, too."""


class Refused(Message, frozen=True):
    """The connection will not stand; ``final`` means that trying again without an operator's help is useless."""

    reason: str
    final: bool = False


class EventsAck(Message, frozen=True):
    """Everything up to ``seq`` is recorded."""

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
    """A frame that is not one of ours, with the decoder's reason."""


def encode(message: Message | AgentEvent) -> bytes:
    """Return the frame, or what is kept of one, as UTF-8 JSON."""
    return _encoder.encode(message)


def decode_to_agent(frame: bytes | str) -> ToAgent:
    """Read what the portal sent; raises ContractError."""
    return _decode(_to_agent, frame)


def decode_to_portal(frame: bytes | str) -> ToPortal:
    """Read what an agent sent; raises ContractError."""
    return _decode(_to_portal, frame)


def decode_command_body(data: bytes | str) -> CommandBody:
    """Read a stored command; raises ContractError."""
    return _decode(_command_body, data)


def decode_event(data: bytes | str) -> AgentEvent:
    """Read a stored report; raises ContractError."""
    return _decode(_event, data)


def decode_call_body(data: bytes | str) -> CallBody:
    """Read a stored call; raises ContractError."""
    return _decode(_call_body, data)


def decode_call_result(data: bytes | str) -> CallResult:
    """Read a stored answer; raises ContractError."""
    return _decode(_call_result, data)


def _decode(decoder: msgspec.json.Decoder[T], data: bytes | str) -> T:
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise ContractError(str(error)) from error
