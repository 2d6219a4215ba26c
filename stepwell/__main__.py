"""`python -m stepwell`: the command line."""

from stepwell.cli import main

main()
