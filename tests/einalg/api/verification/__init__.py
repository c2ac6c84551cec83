"""Tests of models compared with their framework."""
