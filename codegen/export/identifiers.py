"""C identifiers of an exported function and of its buffers."""

from __future__ import annotations

import re
from pathlib import Path

from codegen.targets.c.helpers import RESERVED
from codegen.targets.c.names import Names
from codegen.targets.c.vectors import VECTOR_NAME
from einalg.options import Kind, accepting

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# The header is for C++ as well, and the files include headers of C.
CPP_WORDS = frozenset(
    """
alignas alignof and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return
co_yield compl concept const_cast consteval constexpr constinit decltype delete dynamic_cast
explicit export false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq
private protected public reinterpret_cast requires static_assert static_cast template this
thread_local throw true try typeid typename using virtual wchar_t xor xor_eq
""".split()  # noqa: SIM905
)
LIBRARY_WORDS = frozenset(
    """
NULL EOF BUFSIZ RAND_MAX TIME_UTC EXIT_SUCCESS EXIT_FAILURE HUGE_VAL HUGE_VALF size_t ptrdiff_t
uintptr_t intptr_t time_t clock_t timespec timespec_get malloc calloc realloc free memcpy memset
memcmp memmove strcmp strlen printf fprintf sprintf snprintf puts fputs stdout stderr stdin exit
abort abs labs div ldiv rand srand time clock fabsf fminf fmaxf rintf copysignf signbit isnan
isinf isfinite fopen fclose fread fwrite remove rename signal raise linux unix memory workspace
scratch sample aligned_memory thread_number omp_get_thread_num THREADS SCRATCH_BYTES
dim3 uint2 uint4 weights stream status on_device require ended CALLS bfloat_value cudaError_t
threadIdx blockIdx blockDim gridDim warpSize allocated seconds is_wrong
wrong least began before spent calls call half_value ALLOWED SECONDS
""".split()  # noqa: SIM905
)
MATH_WORDS = frozenset(
    """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim
floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb
lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalbln scalbn
sin sinh sqrt tan tanh tgamma trunc
""".split()  # noqa: SIM905
)
OF_OTHER_TYPES = frozenset(f"{name}{suffix}" for name in MATH_WORDS for suffix in "fl")
USED_WORDS = MATH_WORDS | OF_OTHER_TYPES | RESERVED | CPP_WORDS | LIBRARY_WORDS
# Headers that a file of the same name would hide, and files of a project; some systems do not tell
# apart what differs in capitals alone.
FILE_WORDS = frozenset(
    """
assert complex ctype cuda_bf16 cuda_fp16 cuda_runtime cuda_runtime_api errno fenv float inttypes
iso646 limits locale main main_data makefile math mma omp setjmp signal stdalign stdarg stdatomic
stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
""".split()  # noqa: SIM905
)
# What generated code calls for elements of one type, such as `max_f32`.
HELPER = re.compile(
    r"(abs|at_least|at_most|erf|exp|fused|held|inside|ipow\d+|max|max_nan|min|min_nan|mod|quotient"
    r"|scale|scaled|sign|tanh|turn)_\w*\d+"
)

KERNEL = re.compile(r"kernel_\d+")


def file_names(function: str) -> Names:
    """Return a register of identifiers for the C file of a function: no two of them are equal."""
    return Names({("function", function): function}, USED_WORDS)


def is_function_name(name: object) -> bool:
    """Return whether a name can be that of an exported function.

    >>> [is_function_name(name) for name in ("conv", "2d", "int", "exp")]
    [True, False, False, False]
    """
    if not isinstance(name, str) or not IDENTIFIER.fullmatch(name):
        return False
    return not _is_used(name)


def _is_used(name: str) -> bool:
    is_helper = HELPER.fullmatch(name) or VECTOR_NAME.fullmatch(name) or KERNEL.fullmatch(name)
    is_word = name in USED_WORDS or name.lower() in FILE_WORDS
    return is_word or is_helper is not None


FUNCTION_NAME = Kind(
    "a C identifier that neither C nor C++ nor their libraries use",
    accepting(is_function_name),
    "use letters, digits and underscores, beginning with a letter, e.g. {name}='my_kernel'",
)


def default_name(folder: Path) -> str:
    """Return the name of the function in a folder: like the folder, as C writes names.

    >>> default_name(Path("out/conv-3x3")), default_name(Path("2d")), default_name(Path("exp"))
    ('conv_3x3', 'kernel', 'exp_')
    """
    name = re.sub(r"\W+", "_", folder.name, flags=re.ASCII).strip("_")
    if not IDENTIFIER.fullmatch(name):
        return "kernel"
    while _is_used(name):
        name += "_"
    return name
