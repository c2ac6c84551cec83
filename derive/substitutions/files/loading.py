"""Rule files, told apart by their content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from derive.substitutions.files.json_file import rules_of_json
from derive.substitutions.files.protobuf_file import rules_of_protobuf
from derive.substitutions.files.text_file import is_text, rules_of_text
from derive.substitutions.verification.rule import Substitution
from einalg.errors import RecordError
from einalg.options import PATH, checked

MAX_BYTES = 64 * 2**20
MAX_RULES = 100_000


@checked(path=PATH)
def load(path: Any) -> tuple[Substitution, ...]:
    """Read the rules of a file: JSON, equations of terms as text (egg's and Tensat's, or those of
    TASO's verifier), or TASO's `graph_subst.pb`, which needs `einalg[rules]`.

    Rules of sets are named after these: `"pb133/99"`. Nothing is decided yet: see `verify`. Raises
    `RecordError` for a file that is missing, broken or without rules, and for a rule with an
    operator or a parameter that is not known, that reads what is not there, or whose operators do
    not fit together.

    >>> import json, tempfile
    >>> import einalg as ea
    >>> rule = {"name": "commutative", "shapes": {"A": ["N"], "B": ["N"]},
    ...         "before": "O[i] = A[i]*B[i]", "after": "O[i] = B[i]*A[i]"}
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    ...     _ = file.write(json.dumps({"rules": [rule]}))
    ...     file.flush()
    ...     rules = ea.substitutions.load(file.name)
    >>> ea.substitutions.verify(rules[0])
    commutative: proved
    """
    try:
        if Path(path).stat().st_size > MAX_BYTES:
            raise RecordError(
                f"{path} has more than {MAX_BYTES} bytes\n  give a file of rules, or parts of it"
            )
        content = Path(path).read_bytes()
    except OSError as error:
        raise RecordError(
            f"{path} cannot be read: {error.strerror or error}\n  give a file of rules"
        ) from None
    rules: list[Substitution] = []
    for rule in _rules(content):
        rules.append(rule)
        if len(rules) > MAX_RULES:
            raise RecordError(f"{path} has more than {MAX_RULES} rules\n  give parts of it")
    if not rules:
        raise RecordError(f"{path} has no rules\n  give a file of rules")
    return tuple(rules)


def _rules(content: bytes) -> Any:
    is_json = content.lstrip().startswith((b"{", b"["))
    if not is_json and not is_text(content):
        return rules_of_protobuf(content)
    try:
        text = content.decode()
        return rules_of_json(text) if is_json else rules_of_text(text)
    except UnicodeDecodeError:
        raise RecordError("the file is no text of UTF-8\n  write it as UTF-8") from None
