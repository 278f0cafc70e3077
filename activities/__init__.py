"""Activities: one verb each, given their ports, translating errors in one place."""
