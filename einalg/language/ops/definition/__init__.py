"""Reading the arguments of operators."""
