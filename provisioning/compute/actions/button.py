"""Buttons of server actions on pages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Button:
    """An action's button on pages: its label, its icon, the question before the action and the message after it."""

    position: int
    """Sort key among the buttons, lowest first."""
    name: str
    """Name of the action in the URL of its confirmation page."""
    label: str
    icon: str
    question: str
    consequence: str
    message: str
    """Shown after the action has begun; ``{name}`` is replaced by the server's name."""
    danger: bool = False
