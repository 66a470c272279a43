"""Changes of the states of servers, and their deadlines."""
