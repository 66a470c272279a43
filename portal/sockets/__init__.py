"""WebSockets of browsers, scripts and consoles."""
