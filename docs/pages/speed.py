"""The charts of the performance page and the README, made from the files in `bench/results`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docs.pages.charts import Row, bars, dots
from docs.pages.markdown import table

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"
TIMES_AS_FAST = "times as fast as the fastest library (1: as fast)"
NETWORKS = {
    "bert": "BERT layer, 128 tokens",
    "bert12": "BERT, 12 layers, 128 tokens",
    "convnext": "ConvNeXt-tiny",
    "csrnet": "CSRNet back end",
    "dcgan": "DCGAN",
    "efficientnet": "EfficientNet-B0",
    "fsrcnn": "FSRCNN",
    "gcn": "GCN",
    "gpt": "GPT-2, 128 tokens",
    "gpt_step": "GPT-2, the token after 128",
    "inception": "Inception-v3",
    "infogan": "InfoGAN",
    "longformer_d1": "Longformer layer, 4096 tokens",
    "longformer_d4": "Longformer layer, dilation 4",
    "lstm": "LSTM, ten layers",
    "mmoe": "MMoE",
    "mobilenet_v2": "MobileNet-V2",
    "mobilenet_v3": "MobileNetV3-small",
    "nasnet": "NasNet-A, reduced",
    "resnet18": "ResNet-18",
    "resnet3d": "ResNet3D-18, 8 frames",
    "resnet50": "ResNet-50",
    "resnext50": "ResNeXt-50",
    "squeezenet": "SqueezeNet",
    "srcnn": "SRCNN",
    "swin": "Swin-T",
    "unet": "U-Net",
    "vit": "ViT-tiny",
}
IN_README = {
    "matmul 512x512x512": "matrix product, 512x512x512",
    "Conv3x3 64→64 56x56 NHWC b1": "3x3 convolution, 64 channels, 56x56",
    "Conv3x3 d2 512→512 14x14 NHWC b1": "3x3 convolution, dilation 2, 512 channels, 14x14",
    "ConvTranspose4x4 s2 448→256 2x2 b1": "4x4 transposed convolution, 448 → 256 channels, 2x2",
    "G2BMM 12x4096x64 W256 d4": "banded product, 12 heads, 4096 rows, dilation 4",
}
DEMO = {
    "as it is written": ("einalg, as it is written", "einalg, the direct form"),
    "as derived": ("einalg, derived",),
    "by torch": ("torch",),
    "by NumPy": ("NumPy",),
}
Record = Mapping[str, Any]


def records(name: str) -> dict[str, Record]:
    """Return the records of a benchmark, by the name of the machine that each was measured on."""
    by_machine = {}
    for path in sorted(RESULTS.glob(f"{name}*.json"), key=lambda path: (len(path.stem), path.stem)):
        kind, _, mark = path.stem.partition("-")
        if kind == name:
            record = json.loads(path.read_text(encoding="utf-8"))
            by_machine[_machine(record["machine"], mark)] = record
    return by_machine


def _machine(machine: Record, mark: str) -> str:
    """Return a short name of a machine.

    >>> _machine({"processor": "AMD EPYC", "vectors": "512 bits"}, "zen4")
    'AMD EPYC, 512 bits, zen4'
    """
    parts = [machine["processor"], machine.get("vectors", ""), mark.replace("avx2", "")]
    return ", ".join(filter(None, parts))


def network_chart(batch: int, threads: int) -> str:
    """Return the chart of the networks on every machine that has measured them so."""
    series: dict[str, dict[str, float]] = {}
    for machine, record in records("models").items():
        for row in record["models"]:
            if row["batch"] == batch and row["threads"] == threads and row["ratio"]:
                series.setdefault(row["model"], {})[machine] = row["ratio"]
    rows: list[Row] = [(_network(name), series[name]) for name in sorted(series)]
    title = f"Networks, batch {batch}, {_threads(threads)}"
    return dots(title, rows, TIMES_AS_FAST, list(records("models")))


def _network(name: str) -> str:
    return NETWORKS.get(name, name)


def kernel_chart(threads: int) -> str:
    """Return the chart of the kernels on every machine that has measured them so."""
    series: dict[str, dict[str, float]] = {}
    for machine, record in records("kernels").items():
        for row in record["kernels"]:
            if row["threads"] == threads:
                series.setdefault(row["case"], {})[machine] = ratio(row)
    rows: list[Row] = list(series.items())
    title = f"Kernels, {_threads(threads)}"
    return dots(title, rows, TIMES_AS_FAST, list(records("kernels")))


def depthwise_chart() -> str:
    """Return the chart of depthwise convolutions, against the fastest library."""
    (record,) = records("depthwise").values()
    rows: list[Row] = [(row["case"], {"einalg": ratio(row)}) for row in record["kernels"]]
    return dots("Depthwise convolutions", rows, TIMES_AS_FAST)


def contraction_chart() -> str:
    """Return the chart of products of many tensors, against opt_einsum."""
    (record,) = records("contractions").values()
    rows: list[Row] = [(row["network"], {"einalg": row["ratio"]}) for row in record["contractions"]]
    return dots("Products of many tensors", rows, "times as fast as opt_einsum (1: as fast)")


def filter_chart() -> str:
    """Return the chart of filters of an image, against OpenCV and the plain form."""
    (record,) = records("filters").values()
    (cases,) = (value for key, value in record.items() if key.startswith("filters of"))
    rows: list[Row] = []
    for row in cases:
        times = {"OpenCV": row["of OpenCV"], "as it is written": row["of as written"]}
        rows.append((row["filter"], times))
    return dots("Filters", rows, "times as fast (1: as fast)")


def ratio(row: Record) -> float:
    """Return how many times as fast as the fastest library a kernel is, as generated or derived.

    >>> ratio({"ratio": 1.0, "derived ratio": 2.5}), ratio({"ratio": 1.5, "derived ratio": ""})
    (2.5, 1.5)
    """
    return max(row["ratio"], row.get("derived ratio") or 0.0)


def _threads(count: int) -> str:
    if count == 1:
        return "one thread"
    return f"{count} threads"


def factorisation_chart() -> str:
    """Return the chart of bilinear factorisations: products saved, and rounding beside it."""
    (record,) = records("bilinear_error").values()
    rows: list[Row] = []
    for row in record["Winograd, float32"]:
        if row["axes"] == 2 and row["points"] == "default":
            name = f"{row['taps']}x{row['taps']} window, {row['tile']}x{row['tile']} outputs"
            rows.append(
                (name, {"fewer products": row["fewer products"], "rounding error": row["times"]})
            )
    return dots("Winograd's algorithm", rows, "times that of the sum as it is written")


def trust_chart() -> str:
    """Return the chart of the speed that repeated derivations of one convolution tell."""
    (record,) = records("trust").values()
    rows: list[Row] = []
    for number, row in enumerate(record["trust"], 1):
        name = f"run {number}"
        if row["beside a loop"]:
            name += ", beside a busy loop"
        rows.append((name, {"lowest": row["low"], "told": row["ratio"], "highest": row["high"]}))
    return dots("Ten derivations of one convolution", rows, "times the speed as it is written")


def readme_chart() -> str:
    """Return the chart of the README: networks on the first machine."""
    record = next(iter(records("models").values()))
    rows = [(_network(row["model"]), row["ratio"]) for row in record["models"]]
    rows.sort(key=lambda row: -row[1])
    return bars("Speed of networks", rows, TIMES_AS_FAST)


def readme_table() -> str:
    """Return the table of the README: some kernels on the first machine."""
    record = next(iter(records("kernels").values()))
    rows = {row["case"]: row for row in record["kernels"] if row["threads"] == 1}
    cells = []
    for case, words in IN_README.items():
        row = rows[case]
        own = row["best ms"] / ratio(row)
        library = f"{_ms(row['best ms'])} ({row['best']})"
        cells.append((words, _ms(own), library, f"{ratio(row):.2f}x"))
    return table(["", "einalg", "fastest library", ""], cells)


def readme_demo() -> str:
    """Return the sentence of the README on the demonstration."""
    milliseconds = next(iter(records("demo").values()))["milliseconds"]
    shown = {}
    for words, starts in DEMO.items():
        for name, value in milliseconds.items():
            if name.startswith(starts):
                shown[words] = _ms(value)
    return ", ".join(f"{time} {words}" for words, time in shown.items())


def _ms(value: float) -> str:
    """Return milliseconds with three digits.

    >>> _ms(0.45411), _ms(74.66)
    ('0.454 ms', '74.7 ms')
    """
    return f"{value:.3g} ms"
