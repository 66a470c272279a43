"""WebSockets: browser events, console log, and the agents' link."""
