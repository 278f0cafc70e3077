"""The task and the result of an agent loop; the rules of its turns are in `domain.turns`."""
