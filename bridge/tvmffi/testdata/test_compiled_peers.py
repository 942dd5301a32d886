"""Kernels that TVM has compiled, called by Go with the same process's libtvm_runtime, in the ways that go wrong."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def test_kernels_of_tvm_are_called_at_once_and_refuse_what_is_wrong(tmp_path):
    library, program = tmp_path / "kernels.so", tmp_path / "compiled"
    subprocess.run([sys.executable, HERE.parents[2] / "examples/tvm/kernels.py", library], check=True)
    subprocess.run(["go", "build", "-race", "-o", program, "./compiled"], cwd=HERE, check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DLBRIDGE_")}
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"
    ran = subprocess.run([program, library], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "all held\n"), ran.stderr
