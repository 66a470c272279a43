"""Token authentication, microversions, faults, paging, links and request ids of the APIs."""
