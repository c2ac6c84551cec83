"""The views of results in a real Chromium: light, dark and narrow, by mouse and keyboard, with a
script and without.

`EINALG_SCREENSHOTS=folder` keeps the pictures that are taken on the way.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import einalg as ea
from einalg.display.network_graph import GraphSide, GraphStatement, NetworkGraph
from tests.helpers.jupyter_lab import browser
from tests.helpers.page_checks import outside, poor_texts

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]
TEXT = "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1] * K[f,c,r,s]"
SHAPES = dict(A=(1, 4, 12, 12), K=(4, 4, 3, 3))
HEAD = '<meta charset="utf-8"><meta name="color-scheme" content="light dark">'
HEAD += '<meta name="viewport" content="width=device-width">'
LOOKS = [("light", 1100), ("dark", 1100), ("light", 400), ("dark", 400)]
BACKGROUND = "node => getComputedStyle(node).backgroundColor"


@pytest.fixture(scope="module")
def derivation():
    return ea.derive(TEXT, **SHAPES, states=12, seconds=30)


@pytest.fixture(scope="module")
def network():
    scope = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(8, 9), B=(9, 7))
    rows = []
    for number in range(12):
        reads = tuple(f"step_{k}" for k in (number - 1, number - 3) if k >= 0)
        seconds, layer = 1e-4 * number, "step_4" if number in (4, 5) else ""
        name = "step_4_inner" if number == 5 else f"step_{number}"
        rows.append(
            GraphStatement(name, "matmul", reads, (8, 7), scope, seconds, True, False, layer, name)
        )
    call = GraphStatement("sorted_0", "framework: sort", ("step_11",), text="no expression")
    once = GraphStatement("folded_W", "eop", (), (8, 7), scope, None, False, True, text="W")
    before = GraphSide("before", (*rows, call), 1e-3)
    return NetworkGraph(before, GraphSide("after", (once, *rows[:7]), 5e-4))


@pytest.fixture(scope="module")
def optimized():
    torch = pytest.importorskip("torch", reason="needs einalg[torch]")
    layers = (torch.nn.Conv1d(16, 32, 3), torch.nn.ReLU(), torch.nn.Linear(62, 16))
    return ea.optimize(torch.nn.Sequential(*layers).eval(), (torch.ones(1, 16, 64),), seconds=10)


@pytest.fixture(scope="module")
def views(derivation, network, optimized):
    best = next(c for c in derivation.candidates if c.measured and c.moves)
    return {
        "derivation": derivation,
        "candidate": best,
        "explanation": derivation.explain(best),
        "candidates": derivation.candidates,
        "roofline": derivation.roofline(),
        "costs": derivation.costs(),
        "steps": derivation.steps(best),
        "tree": derivation.plot(),
        "network": network,
        "expression": derivation.expression,
        "program": best.program,
        "optimized": optimized,
        "proof": ea.prove(derivation.expression, best.program),
        "difference": ea.prove("O[i] = A[i]", "O[i] = A[i] + i", A=(4,)),
    }


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


def opened(chromium, html, scheme="light", width=1100, **options):
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, **options
    )
    page = context.new_page()
    page.route("**/*", lambda route: pytest.fail(f"{route.request.url} is fetched"))
    page.set_content(f"<!doctype html><html><head>{HEAD}</head><body>{html}</body></html>")
    return page


def picture(page, name):
    folder = os.environ.get("EINALG_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_views_read_well_and_stay_within_the_page(chromium, views, scheme, width):
    for name, view in views.items():
        page = opened(chromium, view._repr_html_(), scheme, width)
        for is_open in (False, True):
            page.evaluate(
                "is => document.querySelectorAll('details').forEach((d) => { d.open = is; })",
                is_open,
            )
            picture(page, f"{name}-{scheme}-{width}-{'open' if is_open else 'folded'}")
            wrong = [*outside(page), *poor_texts(page)]
            assert not wrong, f"{name}: {wrong[:8]}"
        page.context.close()


def test_a_name_is_marked_in_expression_and_source(chromium, views):
    page = opened(chromium, views["candidate"]._repr_html_())
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    kernel = page.locator(".einalg-kernel", has=page.locator("pre b")).first
    number = kernel.locator("pre b").first.get_attribute("data-n")
    in_source = kernel.locator(f'pre b[data-n="{number}"]').first
    in_formula = kernel.locator(f'math [data-n="{number}"]').first
    chip = kernel.locator(f'.einalg-chips [data-n="{number}"]')
    plain = in_source.evaluate(BACKGROUND)
    in_formula.hover()
    marked = in_source.evaluate(BACKGROUND)
    assert marked != plain and in_formula.evaluate(BACKGROUND) == marked
    page.mouse.move(0, 0)
    assert in_source.evaluate(BACKGROUND) == plain
    in_source.hover()
    assert in_formula.evaluate(BACKGROUND) == marked
    page.mouse.move(0, 0)
    chip.focus()  # by keyboard
    assert in_source.evaluate(BACKGROUND) == in_formula.evaluate(BACKGROUND) == marked


def test_details_unfold_by_keyboard(chromium, views):
    page = opened(chromium, views["derivation"]._repr_html_())
    fold = page.locator("details", has=page.locator("summary:text('Roofline')")).last
    assert fold.get_attribute("open") is None
    fold.locator(":scope > summary").focus()
    page.keyboard.press("Enter")
    assert fold.get_attribute("open") is not None
    assert fold.locator("svg.einalg-roof").is_visible()


def test_a_plot_opens_at_the_best_path(chromium, views):
    page = opened(chromium, views["tree"]._repr_html_(), width=500)
    canvas = page.locator(".einalg-canvas").bounding_box()
    end = page.locator("g.end rect")
    box = end.bounding_box()
    assert canvas["x"] <= box["x"] and box["x"] + box["width"] <= canvas["x"] + canvas["width"]
    assert canvas["y"] <= box["y"] and box["y"] + box["height"] <= canvas["y"] + canvas["height"]
    assert page.locator("g.chosen.end").count() == 1
    tree = views["tree"]
    chosen = next(row for row in tree.rows if row.number == tree.best_number)
    assert page.locator(".einalg-chosen strong").inner_text() == chosen.label
    page.locator("svg").first.focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("g.chosen.end").count() == (0 if chosen.parent is not None else 1)


def test_a_network_is_searched_and_unfolded(chromium, views):
    page = opened(chromium, views["network"]._repr_html_())
    field = page.locator("input[type=search]")
    field.fill("step_4_INNER")
    shown = page.locator(".einalg-node[data-text]:visible strong").all_inner_texts()
    assert shown == ["step_4_inner", "step_4_inner"]  # in its layer, which unfolds: on both sides
    assert page.locator(".einalg-hits").inner_text() == "2 of 21"
    field.fill("no such thing")
    assert page.locator(".einalg-node:visible").count() == 0
    field.fill("")
    assert page.locator(".einalg-side").first.locator(":scope > .einalg-node:visible").count() == 12
    row = page.locator('.einalg-node[data-makes="step_7"] > summary').first
    row.hover()
    near = page.locator(".einalg-side > .einalg-node.near").evaluate_all(
        "rows => rows.map((r) => r.dataset.makes)"
    )
    assert near == ["step_4 step_4_inner", "step_6", "step_8", "step_10"]
    page.locator("button[data-fold='open']").click()
    assert page.locator(".einalg-node:not([open])").count() == 0
    page.locator("button[data-fold='']").click()
    assert page.locator(".einalg-node[open]").count() == 0
    row.focus()
    page.keyboard.press("Enter")
    assert page.locator('.einalg-node[data-makes="step_7"][open] math').first.is_visible()


@pytest.mark.parametrize("name", ["network", "tree", "derivation", "candidate"])
def test_without_a_script_everything_can_be_read(chromium, views, name):
    page = opened(chromium, views[name]._repr_html_(), java_script_enabled=False)
    picture(page, f"{name}-without-script")
    assert page.locator("input:visible").count() == 0
    if name == "network":
        assert page.locator(".einalg-node:visible").count() == 12 + 6
        page.locator(".einalg-node > summary").first.click()
        assert page.locator(".einalg-node[open] math").first.is_visible()
    if name == "tree":
        assert page.locator(".einalg-chosen pre").is_visible()


def test_layers_of_a_report_are_mathematics_with_text_to_copy(chromium, views):
    page = opened(chromium, views["optimized"]._repr_html_())
    layers = page.locator("tbody > tr")
    report = views["optimized"].report
    assert layers.count() == sum(len(program.layers) for program in report.programs) >= 1
    for number in range(layers.count()):
        layer = layers.nth(number)
        assert layer.locator("math").first.is_visible()
        assert layer.locator("pre").first.is_hidden()
        layer.locator("summary:text-is('as text')").first.click()
        assert layer.locator("pre").first.inner_text().strip() in str(report.text)
