"""Tools over the stores: artifacts, todos, sprints, memory and skills."""
