"""The `Makefile` and the `CMakeLists.txt` of an exported project."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.export.c_file import ExportedFunction

# Kernels are fast with these. They change no value beyond the order of sums in vectors, and
# infinities and NaN keep their meaning.
FLAGS = (
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
)
# Some compilers know these alone: sums stay as they are written, and no turn of a loop keeps in
# their registers what it reads; vectors have the longest registers (below a stack pointer that
# signals may use, gcc misplaces them), and reads stay where they are.
OPTIONAL_FLAGS = (
    "-fno-tree-reassoc",
    "-fno-predictive-commoning",
    "-mprefer-vector-width=512",
    "-mno-red-zone",
    "-fno-schedule-insns",
)
MAKEFILE = """\
# make check builds @NAME@ with its main.c, and runs it.
#
# ARCH is the processor that it is built for: this one, or a name that the compiler knows, such as
# x86-64-v3; nothing (make ARCH=) stands for the compiler's default, which every processor of the
# kind runs.
ARCH ?= native
@THREADS@CFLAGS ?= -O3
WARNINGS ?= -Wall -Wextra

# The first argument, where the compiler accepts it.
try = $(CC) -Werror $(1) -fsyntax-only -x c /dev/null >/dev/null 2>&1 && echo '$(1)'
accepted = $(shell $(try))
ifneq ($(ARCH),)
arch := $(call accepted,-march=$(ARCH))
arch := $(or $(arch),-mcpu=$(ARCH))
endif
openmp := -fopenmp-simd
@OPENMP@optional := $(foreach flag,@OPTIONAL@,$(call accepted,$(flag)))
flags := -std=c11 @FLAGS@ \\
  $(openmp) $(arch) $(optional) $(WARNINGS)

all: lib@NAME@.a @NAME@_check

check: @NAME@_check
	./@NAME@_check

lib@NAME@.a: @OBJECTS@
	rm -f $@
	$(AR) rcs $@ $^

@NAME@_check: @MAIN_OBJECTS@ lib@NAME@.a
	$(CC) $(CFLAGS) $(openmp) $(LDFLAGS) $^ -lm $(LDLIBS) -o $@

@NAME@.o: @NAME@.c @NAME@.h
main.o: main.c @NAME@.h
%.o: %.c
	$(CC) $(flags) $(CFLAGS) -c $< -o $@
@BLOBS@
clean:
	rm -f *.o lib@NAME@.a @NAME@_check

.PHONY: all check clean
"""
MAKEFILE_THREADS = """\
# THREADS is how many threads share a loop; 1 needs no library of OpenMP.
THREADS ?= 1
"""
MAKEFILE_OPENMP = """\
ifneq ($(THREADS),1)
openmp := -fopenmp -D@THREADS@=$(THREADS)
endif
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.13)
project(@NAME@ @LANGUAGES@)

# The processor that it is built for: this one, a name that the compiler knows, or nothing for the
# compiler's default.
set(@UPPER@_ARCH native CACHE STRING "processor to build for")
@THREADS@if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_STANDARD 11)

include(CheckCCompilerFlag)
add_library(@NAME@ STATIC @SOURCES@)
target_include_directories(@NAME@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(@NAME@ PUBLIC m)
set(flags @FLAGS@)
set(optional @OPTIONAL@)
if(@UPPER@_ARCH)
  list(APPEND optional -march=${@UPPER@_ARCH})
endif()
foreach(flag IN LISTS optional)
  string(MAKE_C_IDENTIFIER "@NAME@${flag}" accepted)
  check_c_compiler_flag("${flag}" ${accepted})
  if(${accepted})
    list(APPEND flags ${flag})
  endif()
endforeach()
@OPENMP@target_compile_options(@NAME@ PRIVATE "$<$<COMPILE_LANGUAGE:C>:${flags}>")

add_executable(@NAME@_check @MAIN@)
target_link_libraries(@NAME@_check PRIVATE @NAME@)
@BLOBS@enable_testing()
add_test(NAME @NAME@ COMMAND @NAME@_check)
"""
CMAKE_THREADS = """\
# The threads that share a loop; 1 needs no library of OpenMP.
set(@THREADS@ 1 CACHE STRING "threads that share a loop")
"""
CMAKE_OPENMP = """\
if(@THREADS@ GREATER 1)
  find_package(OpenMP REQUIRED COMPONENTS C)
  target_link_libraries(@NAME@ PUBLIC OpenMP::OpenMP_C)
  target_compile_definitions(@NAME@ PRIVATE @THREADS@=${@THREADS@})
else()
  list(APPEND flags -fopenmp-simd)
endif()
"""
CMAKE_SIMD = "list(APPEND flags -fopenmp-simd)\n"


def makefile(function: ExportedFunction, sources: Sequence[str], main: Sequence[str]) -> str:
    """Return the `Makefile`, which builds `sources` as a library and `main` as a program."""
    threads, openmp = "", ""
    if function.is_parallel:
        threads = MAKEFILE_THREADS
        openmp = MAKEFILE_OPENMP.replace("@THREADS@", function.threads)
    blobs: list[str] = []
    for source in _blobs(sources, main):
        blobs.append(f"{_stem(source)}.o: {_stem(source)}.bin\n")
    if blobs:
        blobs.append("%.o: %.S\n\t$(CC) $(CFLAGS) -I. -c $< -o $@\n")
    values = {
        "THREADS": threads,
        "OPENMP": openmp,
        "OPTIONAL": " ".join(OPTIONAL_FLAGS),
        "FLAGS": " ".join(_flags(function)),
        "OBJECTS": " ".join(f"{_stem(source)}.o" for source in sources),
        "MAIN_OBJECTS": " ".join(f"{_stem(source)}.o" for source in main),
        "BLOBS": "".join(blobs),
        "NAME": function.name,
    }
    return _filled(MAKEFILE, values)


def cmake_lists(function: ExportedFunction, sources: Sequence[str], main: Sequence[str]) -> str:
    """Return the `CMakeLists.txt`, with a library, and a test that runs `main`."""
    threads, openmp = "", CMAKE_SIMD
    if function.is_parallel:
        threads = CMAKE_THREADS.replace("@THREADS@", function.threads)
        openmp = CMAKE_OPENMP.replace("@THREADS@", function.threads)
    languages = "C"
    blobs: list[str] = []
    for source in _blobs(sources, main):
        languages = "C ASM"
        depends = f"OBJECT_DEPENDS ${{CMAKE_CURRENT_SOURCE_DIR}}/{_stem(source)}.bin"
        blobs.append(f"set_source_files_properties({source} PROPERTIES\n  {depends})\n")
    values = {
        "LANGUAGES": languages,
        "THREADS": threads,
        "OPENMP": openmp,
        "OPTIONAL": " ".join(OPTIONAL_FLAGS),
        "FLAGS": " ".join(_flags(function)),
        "SOURCES": " ".join(sources),
        "MAIN": " ".join(main),
        "BLOBS": "".join(blobs),
        "UPPER": function.name.upper(),
        "NAME": function.name,
    }
    return _filled(CMAKE, values)


def _filled(template: str, values: dict[str, str]) -> str:
    """Return a template with values for the words between `@`; values may have such words too."""
    for word, value in values.items():
        template = template.replace(f"@{word}@", value)
    return template


def _flags(function: ExportedFunction) -> tuple[str, ...]:
    if function.integers_wrap:
        return (*FLAGS, "-fwrapv")
    return FLAGS


def _blobs(*sources: Sequence[str]) -> list[str]:
    """Return the files that an assembler reads."""
    return [source for group in sources for source in group if source.endswith(".S")]


def _stem(source: str) -> str:
    return source.rpartition(".")[0]
