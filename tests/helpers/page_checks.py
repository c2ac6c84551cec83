"""Checks of a page in a real browser: what runs out of it, and what is hard to read."""

from __future__ import annotations

from typing import Any

# Texts whose contrast with what is behind them is below a ratio (WCAG), each with that ratio. Grounds and
# colours that let through what is behind are blended with it.
POOR_TEXTS = """least => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].map((v, k) => (k === 3 ? v / 255 : v));
    };
    const over = (top, below) => below.map((v, k) => top[k] * top[3] + v * (1 - top[3]));
    const light = (rgb) => rgb.map((v) => v / 255)
        .map((v) => (v <= 0.04 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
    const probe = document.body.appendChild(document.createElement('div'));
    probe.style.background = 'Canvas'; // of the page's own colour scheme
    const canvasColour = rgba(getComputedStyle(probe).backgroundColor).slice(0, 3);
    probe.remove();
    const ground = (node) => {
        if (!node) return canvasColour;
        const own = rgba(getComputedStyle(node).backgroundColor);
        return own[3] === 1 ? own.slice(0, 3) : over(own, ground(node.parentElement));
    };
    const poor = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode.parentElement, text = texts.currentNode.data.trim();
        if (!text || ['STYLE', 'SCRIPT', 'TITLE'].includes(node.tagName.toUpperCase())) continue;
        if (!node.checkVisibility()) continue;
        const style = getComputedStyle(node), behind = ground(node);
        const colour = node.closest('svg') ? style.fill : style.color;
        const pair = [light(over(rgba(colour), behind)), light(behind)].sort((a, b) => b - a);
        const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
        if (ratio < least && !node.closest('.einalg-canvas')) poor.push([text, ratio]);
    }
    return poor;
}"""
# The elements that reach out of the window, and are in none that scrolls or cuts them off.
OUTSIDE = """() => [...document.body.querySelectorAll('*')].filter((node) => {
    if (!node.checkVisibility() || node.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let at = node.parentElement; at && at !== document.body; at = at.parentElement)
        if (getComputedStyle(at).overflowX !== 'visible') return false;
    return true;
}).map((node) => `${node.tagName} ${node.getAttribute('class')}`)"""


def poor_texts(page: Any, least: float = 4.5) -> list[tuple[str, float]]:
    """Return the texts that are hard to read, each with the ratio of its contrast."""
    return [(text, ratio) for text, ratio in page.evaluate(POOR_TEXTS, least)]


def outside(page: Any) -> list[str]:
    """Return the elements that reach out of the window to the right, where nothing scrolls them."""
    elements = page.evaluate(OUTSIDE)
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        elements.append("the page scrolls to the side")
    return elements
