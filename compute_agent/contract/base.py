"""What every frame and command on the agent's WebSocket is."""

from typing import ClassVar

from compute_agent.contract.build import Frozen


def _tag(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class Message(Frozen, frozen=True, tag_field="type", tag=_tag):
    """Base of the frames; the tag is the class name in snake case."""

    since: ClassVar[int] = 0
    """The first version of the contract that has this message; 0: older than any agent that the portal accepts."""

    def needed_version(self) -> int:
        """Return the oldest version of the contract that an agent must have to carry this out as it is meant.

        A command whose meaning changes with a newer field, so that an agent that ignores the field would do harm,
        overrides this.
        """
        return self.since
