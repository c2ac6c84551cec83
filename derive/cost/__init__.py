"""What a program costs: estimated and measured."""
