"""The agent's connection: enrolment, the WebSocket to the portal, heartbeat and the command line."""
