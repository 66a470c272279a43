"""Measures of servers, hosts, projects and the cloud, for an hour, a day and a month (decision 33)."""
