"""Photographs by a headless Chromium, in light and in dark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from docs.pictures.gallery import IMAGES, SESSION, html
from tests.helpers.jupyter_lab import browser, jupyter, opened

SCHEMES = ("light", "dark")
WIDTH = 960
HIGHEST = 700  # pixels of a picture
MARGIN = 18  # pixels right of what is shown
COLOURS = 128  # of its palette, so that files are small
SHARPNESS = 1.5  # pixels of the picture for one of the page
THEME = "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"
IS_DARK = "dark => (document.body.dataset.jpThemeLight === 'false') === dark"


def photograph(values: Mapping[str, Any]) -> Iterator[Path]:
    """Take a picture of each value in light and dark; yield the files that are written."""
    with browser() as chromium:
        for scheme in SCHEMES:
            context = chromium.new_context(
                color_scheme=scheme,
                device_scale_factor=SHARPNESS,
                viewport={"width": WIDTH, "height": HIGHEST},
            )
            for name, value in values.items():
                page = context.new_page()
                page.set_content(html(value))
                page.wait_for_timeout(200)
                yield _save(page.locator("#shown"), name, scheme)
                page.close()
            context.close()


def photograph_session(code: str) -> Iterator[Path]:
    """Take pictures of the widget that `code` shows, in a real JupyterLab."""
    with TemporaryDirectory() as folder, browser() as chromium:
        _write_notebook(Path(folder) / "session.ipynb", code)
        with jupyter(Path(folder)) as address, _page(chromium, address) as page:
            for scheme in SCHEMES:
                page.evaluate(THEME, f"JupyterLab {scheme.capitalize()}")
                page.wait_for_function(IS_DARK, arg=scheme == "dark")
                page.wait_for_timeout(1000)  # the style sheets of the theme
                yield _save(page.locator(".einalg-session").first, SESSION, scheme)


@contextmanager
def _page(chromium: Any, address: str) -> Iterator[Any]:
    page = opened(chromium, address, "session.ipynb")
    page.set_viewport_size({"width": WIDTH + 200, "height": 2400})
    page.wait_for_selector(".einalg-session button.einalg-move")
    yield page
    page.close()


def _write_notebook(path: Path, code: str) -> None:
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": "session",
        "metadata": {},
        "outputs": [],
        "source": code,
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {
        "cells": [cell],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _save(shown: Any, name: str, scheme: str) -> Path:
    """Write the picture of an element without an empty right side, with a palette."""
    from PIL import Image, ImageChops  # with matplotlib, in the extra `notebook`

    picture = Image.open(BytesIO(shown.screenshot())).convert("RGB")
    ground = Image.new("RGB", picture.size, picture.getpixel((0, picture.height - 1)))
    _, _, right, _ = ImageChops.difference(picture, ground).getbbox() or (0, 0, 0, 0)
    width = min(picture.width, right + MARGIN)
    height = min(picture.height, round(HIGHEST * SHARPNESS))
    path = IMAGES / f"{name}-{scheme}.png"
    IMAGES.mkdir(exist_ok=True)
    picture.crop((0, 0, width, height)).quantize(COLOURS).save(path, optimize=True)
    return path
