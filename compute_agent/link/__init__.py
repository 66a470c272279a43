"""The connections to the portal: enrolment, the WebSocket with its heartbeat, images, consoles."""
