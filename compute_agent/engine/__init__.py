"""The command engine: a durable store, an outbox of events to the portal, and worker threads."""
