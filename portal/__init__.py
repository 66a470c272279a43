"""The faces of Novella: pages, REST APIs, WebSockets and the operators' admin; holds no rule of the cloud."""
