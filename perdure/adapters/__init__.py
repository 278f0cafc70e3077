"""Everything that touches the outside world, behind the ports of the domain."""
