"""The worker process of the hand-written loops."""

from benchmarks.baselines import ACTIVITIES, WORKFLOWS
from benchmarks.serving import Served, serve

QUEUE = "baseline"
MODELS_QUEUE = "baseline-models"
TOOLS_QUEUE = "baseline-tools"

if __name__ == "__main__":
    serve(
        Served(QUEUE, WORKFLOWS, ACTIVITIES),
        Served(MODELS_QUEUE, (), ACTIVITIES),
        Served(TOOLS_QUEUE, (), ACTIVITIES),
    )
