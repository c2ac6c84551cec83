"""Operators of frameworks that einalg does not express."""

from __future__ import annotations

UNKNOWN = "unknown_case"
