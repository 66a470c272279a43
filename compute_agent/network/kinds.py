"""Handlers of commands about networks, routers, floating IPs and security groups."""

from compute_agent.contract.network import (
    FLOATING_IP,
    NETWORK,
    ROUTER,
    SECURITY_GROUP,
    ApplyFloatingIpRequest,
    ApplyNetworkRequest,
    ApplyRequest,
    ApplyRouterRequest,
    ApplySecurityGroupRequest,
    ForgetRequest,
)
from compute_agent.engine.context import CommandContext
from compute_agent.engine.handlers import CommandHandler, SubjectKind
from compute_agent.engine.outcomes import Outcome
from compute_agent.engine.store import SubjectRecord
from compute_agent.engine.threads import Threads, in_thread
from compute_agent.network.host_network import HostNetwork
from compute_agent.network.state.documents import Document

BODIES: dict[str, type[ApplyRequest]] = {
    NETWORK: ApplyNetworkRequest,
    ROUTER: ApplyRouterRequest,
    FLOATING_IP: ApplyFloatingIpRequest,
    SECURITY_GROUP: ApplySecurityGroupRequest,
}


class Apply(CommandHandler[ApplyRequest]):
    """Stores a document and applies it to the host."""

    resumes_late = True

    def __init__(self, kind: str, network: HostNetwork, threads: Threads) -> None:
        self._kind = kind
        self._network = network
        self._threads = threads

    async def run(self, context: CommandContext, body: ApplyRequest) -> Outcome:
        document: Document = getattr(body, self._kind)
        await in_thread(self._threads.network, lambda: self._network.apply(document, context.generation, body.digest))
        return Outcome()


class Forget(CommandHandler[ForgetRequest]):
    """Deletes a document and the kernel objects of its subject."""

    removes = True

    def __init__(self, network: HostNetwork, threads: Threads) -> None:
        self._network = network
        self._threads = threads

    async def run(self, context: CommandContext, body: ForgetRequest) -> Outcome:
        await in_thread(self._threads.network, lambda: self._network.forget(*context.subject))
        return Outcome(gone=True)


class DocumentKind(SubjectKind):
    """Subjects of one kind of documents."""

    def __init__(self, kind: str, network: HostNetwork, threads: Threads) -> None:
        self.kind = kind
        self.handlers = {BODIES[kind]: Apply(kind, network, threads), ForgetRequest: Forget(network, threads)}
        self._network = network
        self._threads = threads

    def settled(self, subject_id: str) -> None:
        """Ignore the end of the subject's commands: nothing is kept for a document between commands."""

    async def sweep(self, record: SubjectRecord) -> bool:
        await in_thread(self._threads.network, lambda: self._network.forget(self.kind, record.subject.id))
        return True


def document_kinds(network: HostNetwork, threads: Threads) -> list[DocumentKind]:
    """Return the kinds of documents for a host's network."""
    return [DocumentKind(kind, network, threads) for kind in BODIES]
