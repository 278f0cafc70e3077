"""`python -m benchmarks.peers NAME ADDRESS READY`: the worker of a peer, in its environment.

The worker's module is imported, not run as `__main__`, so that the workflow sandbox passes it
through, as it does the hand-written loops.
"""

import sys
from importlib import import_module

if __name__ == "__main__":
    name = sys.argv.pop(1)
    import_module(f"benchmarks.peers.{name}.worker").main()
