"""Graphs of torch modules, captured by its exporter or by recording calls."""
