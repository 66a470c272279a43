"""Plans of moves of servers between hosts, made by the checks of the actions."""
