"""Set-up of a checkout: system packages, virtual environment, llama-cpp-python. Standard library only."""
