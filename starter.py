"""The command line without installing it: a thin shell over `perdure.__main__`."""

from perdure.__main__ import main

if __name__ == "__main__":
    main()
