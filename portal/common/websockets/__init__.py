"""WebSockets: handshakes, consumers, and tunnels to guests."""
