"""Namespaces that route: their names, work inside them, and their loaded rulesets."""

from collections.abc import Callable, Collection
from typing import TypeVar

from compute_agent.network.kernel import names, namespace, nft
from compute_agent.network.kernel.nft import NftError
from compute_agent.virt.errors import RetryableHostError

T = TypeVar("T")


class Spaces:
    """The namespaces of one agent's routers and external networks."""

    def __init__(self, agent: str | None) -> None:
        """``agent`` is the agent's own namespace, None if it has none."""
        self._agent = agent
        self._rulesets: dict[str, str] = {}

    def name(self, kind: str, subject_id: str) -> str:
        """Return the namespace of a router or of an external network."""
        return names.namespace_name(self._agent, kind, subject_id)

    def inside(self, space: str, work: Callable[[], T]) -> T:
        """Run ``work`` in a namespace. Raises RetryableHostError if the namespace does not exist."""
        try:
            with namespace.inside(space):
                return work()
        except OSError as error:
            raise RetryableHostError("The host could not enter a router.", detail=f"{space}: {error}") from error

    def filter(self, space: str, ruleset: str) -> None:
        """Load a ruleset unless it is loaded. An empty ``space`` is the calling thread's namespace."""
        if self._rulesets.get(space) == ruleset:
            return
        if space:
            self.inside(space, lambda: nft.apply(ruleset, alone=True))
        else:
            nft.apply(ruleset)
        self._rulesets[space] = ruleset

    def changed(self, space: str) -> bool:
        """Return whether another process has changed the rules in a namespace, or whether this is unknown."""
        try:
            return not self.inside(space, nft.untouched)
        except (RetryableHostError, NftError):
            return True

    def forget(self, space: str) -> None:
        """Forget the loaded ruleset of a namespace, so that it is loaded again."""
        self._rulesets.pop(space, None)

    def missing(self, kind: str, subject_ids: Collection[str]) -> set[str]:
        """Return the subjects whose namespace does not exist."""
        there = set(namespace.listed(names.namespace_prefix(self._agent, kind)))
        return {each for each in subject_ids if self.name(kind, each) not in there}

    def keep_only(self, kind: str, subject_ids: Collection[str]) -> list[str]:
        """Remove the namespaces of all subjects of the kind except these, with their contents. Return the removed
        subjects.
        """
        prefix = names.namespace_prefix(self._agent, kind)
        gone = [name.removeprefix(prefix) for name in namespace.listed(prefix)]
        gone = [each for each in gone if each not in subject_ids]
        for subject_id in gone:
            namespace.remove(self.name(kind, subject_id))
            self.forget(self.name(kind, subject_id))
        return gone
