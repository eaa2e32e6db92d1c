"""`python -m punn` is the `punn` command."""

from punn.cli import main

if __name__ == "__main__":
    main()
