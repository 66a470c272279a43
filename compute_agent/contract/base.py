"""The base class of frames and commands on the agent's WebSocket."""

from typing import ClassVar

from compute_agent.contract.build import Frozen


def _tag(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class Message(Frozen, frozen=True, tag_field="type", tag=_tag):
    """Base class of frames; the tag is the class name in snake case."""

    since: ClassVar[int] = 0
    """The first version of the contract with this message; 0: older than any supported agent."""

    def needed_version(self) -> int:
        """Return the oldest contract version with which an agent executes this correctly.

        Overridden by commands whose meaning changes with a newer field, if ignoring the field would do harm.
        """
        return self.since
