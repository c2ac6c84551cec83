"""The `Makefile` and the `CMakeLists.txt` of an exported CUDA project."""

from __future__ import annotations

from collections.abc import Sequence

MAKEFILE = """\
# make check builds @NAME@ with its main.cu, and runs it.
#
# ARCH is the device that it is built for: that of this machine, or a name such as sm_90.
NVCC ?= nvcc
ARCH ?= native
NVCCFLAGS ?= -O3
flags := -std=c++17 -arch=$(ARCH) $(NVCCFLAGS)

@NAME@_check: @OBJECTS@
	$(NVCC) $(flags) $^ -o $@

check: @NAME@_check
	./@NAME@_check

%.o: %.cu @NAME@.h
	$(NVCC) $(flags) -c $< -o $@
%.o: %.S
	$(CC) -I. -c $< -o $@

clean:
	rm -f *.o @NAME@_check

.PHONY: check clean
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.18)
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
project(@NAME@ @LANGUAGES@)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CUDA_STANDARD 17)

add_library(@NAME@ STATIC @SOURCES@)
target_include_directories(@NAME@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
add_executable(@NAME@_check @MAIN@)
target_link_libraries(@NAME@_check PRIVATE @NAME@)
enable_testing()
add_test(NAME @NAME@ COMMAND @NAME@_check)
"""


def makefile(name: str, sources: Sequence[str], main: Sequence[str]) -> str:
    """Return the `Makefile`."""
    objects = [f"{source.rpartition('.')[0]}.o" for source in (*sources, *main)]
    return MAKEFILE.replace("@OBJECTS@", " ".join(objects)).replace("@NAME@", name)


def cmake_lists(name: str, sources: Sequence[str], main: Sequence[str]) -> str:
    """Return the `CMakeLists.txt`, with a library, and a test that runs `main`."""
    languages = "CXX CUDA"
    if any(source.endswith(".S") for source in (*sources, *main)):
        languages = "C CXX CUDA ASM"
    text = CMAKE.replace("@LANGUAGES@", languages).replace("@SOURCES@", " ".join(sources))
    return text.replace("@MAIN@", " ".join(main)).replace("@NAME@", name)
