"""The interfaces of Novella: pages, REST APIs, WebSockets and the operators' admin. Contains no rules of the cloud."""
