"""Builds the C extension and, unless DLBRIDGE_WITHOUT_GO=1, the Go library beside it.

In a checkout, both need sources outside of this folder (dlpack/, include/, bridge/libdlbridge and what it imports). A
source distribution has copies of them in checkout/, so that it can be built without the rest of the checkout.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE / "checkout" if (HERE / "checkout").is_dir() else HERE.parents[1]
CORE = ROOT / "dlpack" / "internal" / "core"
CAPI = ROOT / "bridge" / "capi"
SEGMENT = ROOT / "bridge" / "internal" / "segment"
TEXTS = ROOT / "bridge" / "internal" / "errtext"
LIBRARY = ROOT / "bridge" / "libdlbridge"

# The files that the C files of src include: headers, and tensor.c with the C files of other folders that it includes.
INCLUDED = [
    *HERE.glob("src/*.h"),
    *(ROOT / "include").rglob("*.h"),
    *(path for folder in (CORE, CAPI, SEGMENT, TEXTS) for path in folder.glob("*.[ch]")),
    LIBRARY / "tensor.c",
]

LINUX = sys.platform.startswith("linux")

# One binary serves CPython 3.11 and later; free-threaded builds have no limited API.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")


class Build(build_ext):
    """Builds the extension, copies the headers into dlbridge/_include, and builds libdlbridge in dlbridge/_lib."""

    def run(self) -> None:
        if not (CORE / "core.h").is_file():
            sys.exit(
                f"dlbridge: the C core is not at {CORE}: build from a checkout of dlbridge or a source distribution"
            )
        super().run()
        folder = HERE if self.inplace else pathlib.Path(self.build_lib).resolve()
        headers = folder / "dlbridge" / "_include"
        shutil.rmtree(headers, ignore_errors=True)
        shutil.copytree(ROOT / "include", headers, ignore=shutil.ignore_patterns("*.go"))
        out = folder / "dlbridge" / "_lib"
        if os.environ.get("DLBRIDGE_WITHOUT_GO") != "1":
            self.build_library(out)
        else:
            shutil.rmtree(out, ignore_errors=True)  # of an earlier build

    def build_library(self, out: pathlib.Path) -> None:
        script = LIBRARY / "build.sh"
        go = os.environ.get("GO", "go")
        if shutil.which(go) is None or not script.is_file():
            missing = "no Go compiler" if script.is_file() else f"no {script}"
            sys.exit(
                f"dlbridge: {missing}: the codecs need the Go library. Install Go 1.26 or later, or set "
                "DLBRIDGE_WITHOUT_GO=1 to build without it (then DLBRIDGE_LIBRARY names a library at run time)."
            )
        built = pathlib.Path(self.build_temp).resolve() / "lib"
        subprocess.run(["sh", str(script), str(built)], check=True)
        out.mkdir(parents=True, exist_ok=True)
        shutil.copy(built / "libdlbridge.so", out / "libdlbridge.so")
        for file in built.glob("libdlbridge_tensor.so.?"):  # by the name that libdlbridge.so loads it by
            shutil.copy(file, out / file.name)


class Distribute(sdist):
    """Packs this folder, and copies of the sources outside of it that the build needs, in checkout/."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        found = [ROOT / name for name in ("go.mod", "go.sum")]
        for folder in ("bridge", "dlpack", "include", "tens"):
            found += (ROOT / folder).rglob("*")
        for file in found:
            inside = file.relative_to(ROOT)
            if {"python", "testdata"} & set(inside.parts) or inside.name.endswith("_test.go") or not file.is_file():
                continue
            if inside.suffix in (".c", ".go", ".h", ".in", ".map", ".mod", ".sh", ".sum"):
                copy = pathlib.Path(base_dir, "checkout", inside)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)


setup(
    cmdclass={"build_ext": Build, "sdist": Distribute},
    ext_modules=[
        Extension(
            "dlbridge._core",
            sources=sorted(f"src/{path.name}" for path in (HERE / "src").glob("*.c")),
            depends=[os.path.relpath(path, HERE) for path in sorted(INCLUDED)],
            include_dirs=[str(ROOT / "include"), str(CORE), str(CAPI), str(SEGMENT), str(ROOT / "bridge")],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],
            py_limited_api=LIMITED,
            extra_compile_args=[
                *["-std=gnu11", "-fvisibility=hidden", "-fno-omit-frame-pointer"],
                *["-Wall", "-Wextra", "-Werror=int-conversion", "-Werror=incompatible-pointer-types"],
                *(["-ffunction-sections", "-fdata-sections", "-fno-plt"] if LINUX else []),
            ],
            # The linker drops the functions of the core that the extension does not use.
            extra_link_args=["-Wl,--gc-sections"] if LINUX else [],
            libraries=["pthread", "dl", "m"] if LINUX else [],
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
