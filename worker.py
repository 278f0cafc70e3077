"""Start a Perdure worker: a thin shell over `perdure.worker`."""

from perdure.worker import main

if __name__ == "__main__":
    main()
