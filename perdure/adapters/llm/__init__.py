"""Model clients: the Messages API, the embedded model behind the same client, the scripted one."""
