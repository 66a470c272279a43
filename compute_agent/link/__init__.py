"""Connections to the portal: enrolment, the WebSocket with its heartbeat, images, backups and tunnels."""
