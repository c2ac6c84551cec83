"""`python -m einalg.cli` is `einalg`."""

from einalg.cli import main

if __name__ == "__main__":
    main()
