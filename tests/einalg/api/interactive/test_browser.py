"""What a person sees: a real JupyterLab and Notebook 7, a real Chromium, clicks and keys, light and
dark.

`EINALG_SCREENSHOTS=folder` keeps the pictures that are taken on the way.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import einalg as ea
from docs.notebooks import stored
from tests.helpers.jupyter_lab import browser, jupyter, opened

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::ResourceWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]

CONV = "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1] * K[f,c,r,s]"
NOTEBOOKS = stored.paths()
CELLS_OF = "jupyterapp.shell.currentWidget.content.model.sharedModel.cells.map(cell => cell.toJSON()).filter(cell => cell.cell_type === 'code')"
NOT_RUN = f"{CELLS_OF}.filter(cell => !cell.execution_count).map(cell => cell.source)"
ERRORS = f"{CELLS_OF}.flatMap(cell => cell.outputs).filter(output => output.output_type === 'error').map(output => output.evalue)"
NOTEBOOK = 600_000  # milliseconds that a notebook may run
SHAPES = dict(A=(1, 8, 12, 12), K=(8, 8, 3, 3))
CELLS = [
    "import einalg as ea",
    f's = ea.Session(ea.parse("{CONV}", A={SHAPES["A"]}, K={SHAPES["K"]}))\ns',
    "d = ea.derive(s.history.start, states=12, measure=False)\nd.plot()",
    "d.steps(next(c for c in d.candidates if c.moves))",
    f'ea.footprint(ea.parse("{CONV}", A=(1, 8, 6, 7), K={SHAPES["K"]}))',
    "ea.mapping_table(s.history.start)",
    "d.costs()",
]
SEVERAL = [  # views: of two sessions, and of the first one again
    CELLS[0],
    CELLS[1],
    's2 = ea.Session("O[i,j] += A[i,k]*B[k,j]", A=(6, 7), B=(7, 8))\ns2',
    "s",
]
SOURCES = {"lab.ipynb": CELLS, "notebook.ipynb": CELLS[:2], "several.ipynb": SEVERAL}
# What is wider than the view that it is in, but for what scrolls.
TOO_WIDE = """view => {
    const right = view.getBoundingClientRect().right + 1;
    const scrolls = '.einalg-formula, .einalg-canvas, pre, textarea, .einalg-card';
    return [...view.querySelectorAll('*')]
        .filter(node => !node.parentElement.closest(scrolls) && !node.matches('option, small, .einalg-at code'))
        .filter(node => node.getBoundingClientRect().right > right)
        .map(node => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 40)}`);
}"""
# Buttons and labels that lie over each other.
OVERLAPS = """view => {
    const boxes = [...view.querySelectorAll('button, select, summary, h4, label, .einalg-badge')]
        .map(node => [node, node.getBoundingClientRect()]).filter(([, box]) => box.width && box.height);
    const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
    const pairs = [];
    for (const [one, a] of boxes) for (const [other, b] of boxes) {
        if (one === other || one.contains(other) || other.contains(one)) continue;
        if (one.closest('.einalg-list') || other.closest('.einalg-list')) continue;
        if (!apart(a, b)) pairs.push(`${one.textContent.slice(0, 30)} | ${other.textContent.slice(0, 30)}`);
    }
    return pairs;
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    nbformat = pytest.importorskip("nbformat", reason="needs einalg[browser]")
    for package in ("jupyterlab", "notebook", "anywidget", "latex2mathml"):
        pytest.importorskip(package, reason="needs einalg[browser]")
    made = tmp_path_factory.mktemp("notebooks")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for name, sources in SOURCES.items():
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), made / name)
    return made


@pytest.fixture(scope="module")
def chromium(folder):
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def address(folder, chromium):
    with jupyter(folder) as found:
        yield found


@pytest.fixture(scope="module")
def lab(chromium, address):
    page = opened(chromium, address, "lab.ipynb")
    page.set_viewport_size({"width": 1280, "height": 2400})
    page.wait_for_selector(".einalg-session")
    return page


def picture(page, name):
    """What the page shows now, kept where that is wished."""
    kept = os.environ.get("EINALG_SCREENSHOTS")
    taken = page.screenshot()
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        (Path(kept) / f"{name}.png").write_bytes(taken)
    return taken


def shown(page):
    """The expression on the page, in the notation: the text behind the mathematics."""
    return page.locator(".einalg-session .einalg-expression").first.get_attribute("title")


def symbols(page):
    """The mathematics itself, as it reads."""
    return re.sub(
        r"\s|\u2062",
        "",
        page.locator(".einalg-session .einalg-expression math").first.evaluate(
            "node => node.textContent"
        ),
    )


def at_step(page, step, of):
    page.wait_for_selector(f".einalg-session .einalg-where:text-is('step {step} of {of}')")
    page.wait_for_selector(".einalg-session:not([aria-busy])")


def started():
    return ea.Session(ea.parse(CONV, **SHAPES))


def contrast(page, selector):
    """The ratio of luminances of a text and of what is behind it (WCAG), from the colours that the
    browser computed.
    """
    return page.locator(selector).first.evaluate("""node => {
        const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                                   return [...canvas.getImageData(0, 0, 1, 1).data]; };
        const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
                                              .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
        let ground = node;
        while (ground && rgba(getComputedStyle(ground).backgroundColor)[3] < 255) ground = ground.parentElement;
        const pair = [light(rgba(getComputedStyle(node).color)), light(rgba(getComputedStyle(ground).backgroundColor))].sort((a, b) => b - a);
        return (pair[0] + 0.05) / (pair[1] + 0.05);
    }""")


def test_the_expression_is_shown_as_mathematics(lab):
    assert shown(lab) == str(started().expr)
    assert symbols(lab) == "O=Ln,f,h,w∑c,r,sApad[n,c,h+r−1,s+w−1]K[f,c,r,s]"
    width = lab.locator(".einalg-session .einalg-expression math").first.bounding_box()["width"]
    assert width > 200, "the mathematics is not laid out"
    picture(lab, "lab-light")


def test_a_move_is_clicked_and_undone(lab):
    mirror = started()
    mirror.apply(mirror.moves("summation splitting")[3])
    lab.locator(".einalg-session").first.locator("button.einalg-move").nth(3).click()
    at_step(lab, 1, 1)
    assert (
        shown(lab) == str(mirror.expr)
        and lab.locator(".einalg-message").first.inner_text() == "summation splitting: proved"
    )
    lab.locator("[data-key='undo']").first.click()
    at_step(lab, 0, 1)
    assert shown(lab) == str(mirror.history.start)
    lab.locator("[data-key='redo']").first.click()
    at_step(lab, 1, 1)
    lab.locator("[data-key='state 0']").first.click()
    at_step(lab, 0, 1)


def test_everything_works_by_keyboard(lab):
    mirror = started()
    group = lab.locator("summary[data-key='rule variable substitution']").first
    group.focus()
    lab.keyboard.press("Enter")
    lab.wait_for_selector("button[data-key^='move variable substitution']")
    mirror.apply(mirror.moves("variable substitution")[1])
    lab.locator("button[data-key^='move variable substitution']").first.focus()
    lab.keyboard.press("ArrowDown")
    lab.keyboard.press("Enter")
    at_step(lab, 1, 1)
    assert shown(lab) == str(mirror.expr)
    assert lab.evaluate("document.activeElement.closest('.einalg-session') !== null"), (
        "the focus is lost after a move"
    )
    lab.keyboard.press("Control+z")
    at_step(lab, 0, 1)
    lab.keyboard.press("Control+y")
    at_step(lab, 1, 1)
    lab.keyboard.press("Control+z")
    at_step(lab, 0, 1)
    assert lab.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.length") == len(
        CELLS
    ), "JupyterLab took the keys"


def back_to_the_start(page):
    """The first state, all moves, no aim."""
    page.locator("[data-key='state 0']").first.click()
    idle(page)
    page.locator("select[data-key='aim']").first.select_option("")
    idle(page)


def idle(page):
    """Until the kernel has answered all views."""
    page.wait_for_timeout(100)
    page.wait_for_function("!document.querySelector('.einalg-session[aria-busy]')")


def focused(page):
    return page.evaluate("document.activeElement.dataset.key")


def test_a_part_of_the_formula_is_clicked(lab):
    back_to_the_start(lab)
    mirror = started()
    lab.locator("[data-key='part O.Sum'] mo").first.click()
    lab.wait_for_selector(".einalg-at:has-text('at O.Sum')")
    picture(lab, "lab-part")
    counts = sum(map(int, lab.locator(".einalg-moves summary .einalg-count").all_inner_texts()))
    assert counts == len(mirror.moves(at="O.Sum"))
    pressed = lab.locator("[data-part][aria-pressed='true']")
    assert pressed.count() == 1 and pressed.first.get_attribute("data-key") == "part O.Sum"
    mirror.apply(mirror.moves(at="O.Sum")[0])
    lab.locator("button.einalg-move").first.click()
    lab.wait_for_selector(".einalg-at", state="detached")
    assert shown(lab) == str(mirror.expr)


def test_a_part_is_chosen_by_keyboard(lab):
    back_to_the_start(lab)
    stops = lab.locator(".einalg-program [data-part][tabindex='0']")
    assert stops.count() == 1
    stops.first.focus()
    for key, part in (("ArrowDown", "O.Sum"), ("ArrowRight", "O.A"), ("End", "O.K")):
        lab.keyboard.press(key)
        assert focused(lab) == f"part {part}"
    lab.keyboard.press("ArrowLeft")
    lab.keyboard.press("Enter")
    lab.wait_for_selector(".einalg-at:has-text('at O.A')")
    idle(lab)
    assert focused(lab) == "part O.A", "the focus is lost"
    lab.keyboard.press("ArrowUp")
    lab.keyboard.press(" ")
    lab.wait_for_selector(".einalg-at span:text-is('at O')")
    idle(lab)
    lab.locator("[data-key='all moves']").first.click()
    lab.wait_for_selector(".einalg-at", state="detached")


def test_the_session_aims_at_an_operator(lab):
    back_to_the_start(lab)
    mirror = started().aim("matmul")
    aim = lab.locator("select[data-key='aim']").first
    aim.focus()
    aim.select_option("matmul")
    lab.wait_for_selector(".einalg-aim:has-text('matmul: distance 12')")
    idle(lab)
    assert focused(lab) == "aim"
    badges = lab.locator("button.einalg-move .einalg-badge").all_inner_texts()
    assert badges == [choice.nearness for choice in mirror.moves() if choice.is_nearer]
    picture(lab, "lab-aim")
    lab.locator("button.einalg-move").first.click()
    mirror.apply(0)
    lab.wait_for_selector(".einalg-aim:has-text('matmul: reached, 12 at the start')")
    assert shown(lab) == str(mirror.expr)


def test_another_move_begins_a_branch_that_is_gone_to(lab):
    back_to_the_start(lab)
    lab.locator("button.einalg-move", has_text="outer=(c, s)").click()
    idle(lab)
    first, key = shown(lab), lab.locator(".einalg-states li.now button").get_attribute("data-key")
    lab.locator("[data-key='undo']").first.click()
    idle(lab)
    lab.locator("button.einalg-move", has_text="outer=(c, r)").click()
    idle(lab)
    assert shown(lab) != first
    assert lab.locator(f".einalg-states li.aside [data-key='{key}']").count() == 1
    assert "branches" in lab.locator(".einalg-side .einalg-count").first.inner_text()
    picture(lab, "lab-branches")
    lab.locator(f"[data-key='{key}']").focus()
    lab.keyboard.press("Enter")
    idle(lab)
    assert shown(lab) == first and focused(lab) == key
    assert lab.locator(".einalg-states li.now button").get_attribute("data-key") == key


def test_what_a_move_changes_is_marked(lab):
    move = lab.locator("button.einalg-move").first
    assert move.locator(".einalg-after .einalg-changed").count() > 0
    marked = move.locator(".einalg-after .einalg-changed").first.evaluate(
        "node => getComputedStyle(node).backgroundColor"
    )
    assert marked not in ("rgba(0, 0, 0, 0)", "transparent")


def test_search_from_here_and_take_a_candidate(lab):
    lab.locator("[data-key='state 0']").first.click()
    lab.locator("input[data-key='seconds']").first.fill("3")
    lab.locator("button[data-key='search']").first.click()
    lab.wait_for_selector(".einalg-session progress")
    lab.wait_for_selector(".einalg-found li button")
    assert lab.locator(".einalg-search .einalg-canvas g").count() > 3
    picture(lab, "lab-search")
    row = lab.locator(".einalg-found li", has=lab.locator("button")).first
    kernels = row.locator("code").all_inner_texts()
    row.locator("button").click()
    lab.wait_for_selector(".einalg-message:has-text('applied')")
    assert sorted(lab.locator(".einalg-list-of-kernels code").all_inner_texts()) == sorted(kernels)


def test_exports(lab):
    lab.locator("[data-key='export script']").first.click()
    lab.wait_for_selector("a[download='derivation.py']")
    made: dict[str, object] = {}
    exec(lab.locator("textarea").first.input_value(), made)
    assert str(made["s"].expr) == shown(lab)


def test_the_pictures(lab):
    tree = lab.locator(".einalg-tree", has=lab.locator("[data-zoom]")).last
    svg = tree.locator("svg")
    before = svg.bounding_box()["width"]
    tree.locator("[data-zoom='in']").click()
    assert svg.bounding_box()["width"] > before
    svg.focus()
    lab.keyboard.press("ArrowDown")
    lab.keyboard.press("ArrowRight")
    assert tree.locator(".einalg-chosen pre").inner_text().startswith("O[n:1,")
    assert (
        lab.locator(".einalg-proof li").count() > 1
        and lab.locator(".einalg-mapping td.has").count() > 5
    )
    assert (
        lab.locator(".jp-OutputArea img").count() == 1
        and lab.locator(".einalg-costs .einalg-stack span").count() > 1
    )
    lab.locator(".einalg-proof").scroll_into_view_if_needed()
    picture(lab, "lab-pictures")


TEXTS = (
    *(
        ".einalg-expression",
        ".einalg-muted",
        ".einalg-count",
        ".einalg-states small",
        ".einalg-badge",
        ".einalg-card",
    ),
    *(".einalg-mapping td", ".einalg-export a"),
)


def test_it_reads_well_in_light_and_dark(lab):
    grounds = []
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme
        )
        lab.wait_for_function(
            "dark => (document.body.dataset.jpThemeLight === 'false') === dark",
            arg=theme.endswith("Dark"),
        )
        lab.wait_for_timeout(700)  # the style sheets of the theme
        grounds.append(
            lab.locator(".einalg-session").first.evaluate(
                "node => getComputedStyle(node).backgroundColor"
            )
        )
        poor = {
            text: round(ratio, 2)
            for text in TEXTS
            if lab.locator(text).count() and (ratio := contrast(lab, text)) < 4.5
        }
        lab.locator(".einalg-session").first.scroll_into_view_if_needed()
        picture(lab, f"lab-{theme.split()[1].lower()}-end")
        assert not poor, f"{theme}: contrast below 4.5"
    assert grounds[0] != grounds[1]


def test_notebook_7_shows_the_same(chromium, address):
    page = opened(chromium, address, "notebook.ipynb", "notebook")
    page.wait_for_selector(".einalg-session button.einalg-move")
    mirror = started()
    assert shown(page) == str(mirror.expr)
    page.locator("button.einalg-move").nth(1).click()
    at_step(page, 1, 1)
    mirror.apply(mirror.moves("summation splitting")[1])
    assert shown(page) == str(mirror.expr)
    picture(page, "notebook")
    page.close()


@pytest.fixture(scope="module")
def several(chromium, address):
    page = opened(chromium, address, "several.ipynb")
    page.set_viewport_size({"width": 1280, "height": 2400})
    page.wait_for_function("document.querySelectorAll('.einalg-session').length === 3")
    idle(page)
    return page


def texts(page):
    """The expressions of all views."""
    return page.locator(".einalg-program .einalg-expression").evaluate_all(
        "nodes => nodes.map(node => node.title)"
    )


def in_kernel(page, action):
    page.evaluate(f"window.jupyterapp.shell.currentWidget.sessionContext.{action}")


def test_views_of_one_session_go_together_and_of_two_do_not(several):
    before = texts(several)
    assert before[0] == before[2] != before[1]
    views = several.locator(".einalg-session")
    views.nth(2).locator("button.einalg-move").nth(1).click()
    several.wait_for_function("document.querySelectorAll('.einalg-states li').length === 5")
    idle(several)
    after = texts(several)
    assert after[0] == after[2] != before[0] and after[1] == before[1]
    views.nth(1).locator("[data-key='part O.Sum'] mo").first.click()
    idle(several)
    assert views.nth(1).locator(".einalg-at").count() == 1
    assert several.locator(".einalg-at").count() == 1
    views.nth(0).locator("[data-key='undo']").click()
    idle(several)
    assert texts(several) == before


def test_an_output_that_is_made_again_is_no_second_one(several):
    before = texts(several)
    several.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    several.wait_for_timeout(1500)
    several.wait_for_function("document.querySelectorAll('.einalg-session').length === 3")
    idle(several)
    assert texts(several) == before and several.locator(".einalg-notice:not(:empty)").count() == 0
    several.locator(".einalg-session").nth(0).locator("button.einalg-move").first.click()
    idle(several)
    assert texts(several)[0] == texts(several)[2] != before[0]


@pytest.mark.parametrize("width", [1280, 700, 400])
def test_nothing_sticks_out_or_lies_over_something_else(several, width):
    several.set_viewport_size({"width": width, "height": 2400})
    several.wait_for_timeout(400)
    views = several.locator(".einalg-session")
    views.nth(0).locator("select[data-key='aim']").select_option("matmul")
    idle(several)
    heights = [view.bounding_box()["height"] for view in views.all()]
    several.wait_for_timeout(500)
    assert [view.bounding_box()["height"] for view in views.all()] == heights, "it stretches"
    for number, view in enumerate(views.all()):
        view.scroll_into_view_if_needed()
        assert view.evaluate(TOO_WIDE) == []
        assert view.evaluate(OVERLAPS) == []
        picture(several, f"several-{width}-{number}")


def test_a_view_whose_kernel_is_gone_says_so(several):
    several.set_viewport_size({"width": 1280, "height": 2400})
    in_kernel(several, "restartKernel()")
    several.wait_for_function("document.querySelectorAll('.einalg-stale').length === 3")
    for view in several.locator(".einalg-session").all():
        assert "Run the cell again" in view.locator(".einalg-notice").inner_text()
        assert view.locator("button:enabled, select:enabled, input:enabled").count() == 0
        assert view.locator("[data-part][tabindex]").count() == 0
        assert view.get_attribute("aria-busy") is None
    picture(several, "several-stale")
    several.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    several.wait_for_function(
        "document.querySelectorAll('.einalg-session:not(.einalg-stale)').length === 3"
    )
    idle(several)
    several.locator(".einalg-session").first.locator("button.einalg-move").first.click()
    idle(several)
    assert several.locator(".einalg-where").first.inner_text() == "step 1 of 1"


def test_a_kernel_that_does_not_answer_is_said(several):
    in_kernel(several, "shutdown()")
    several.wait_for_timeout(1000)
    several.locator(".einalg-session").first.locator("[data-key='undo']").click()
    several.wait_for_selector(".einalg-notice:not(:empty)")
    said = several.locator(".einalg-notice:not(:empty)").first.inner_text()
    assert "has not answered" in said or "Run the cell again" in said


@pytest.mark.nightly
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_notebook_runs_in_the_browser(chromium, address, folder, path):
    stored.write(stored.without_outputs(stored.read(path)), folder / path.name)
    page = opened(chromium, address, path.name, wait=False)
    page.set_viewport_size({"width": 1280, "height": 4000})
    page.wait_for_function("() => window.done", timeout=NOTEBOOK)
    page.wait_for_timeout(500)
    picture(page, path.stem)
    assert page.evaluate(ERRORS) == []
    assert page.evaluate(NOT_RUN) == []
    page.close()
