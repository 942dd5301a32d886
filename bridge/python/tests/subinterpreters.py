"""Imports dlbridge in subinterpreters of every kind, before and after the main interpreter has imported it. Each import must
raise an ImportError. `make wheel-test` runs this with every Python that it installs the wheel with."""

import os
import sys

try:
    import _interpreters as interpreters  # Python 3.13 and later
except ImportError:
    import _xxsubinterpreters as interpreters

if sys.version_info >= (3, 13):
    # Subinterpreters of kind legacy share the GIL of the main interpreter. The others have their own.
    KINDS = [lambda: interpreters.create("legacy"), lambda: interpreters.create("isolated")]
else:
    KINDS = [lambda: interpreters.create(isolated=False), lambda: interpreters.create(isolated=True)]

# Writes one line for each import. A second import must not find a half-initialized module.
CODE = """
import os
for name in ("dlbridge", "dlbridge", "dlbridge._core"):
    try:
        __import__(name)
        said = "imported"
    except ImportError as error:
        said = f"ImportError: {error}"
    except BaseException as error:
        said = repr(error)
    os.write(PIPE, (said + "\\n").encode())
"""
# The first text is from dlbridge. The second is from CPython 3.12 and later, for interpreters with their own GIL.
REFUSED = (
    "ImportError: dlbridge: the module cannot be imported in a subinterpreter",
    "ImportError: module dlbridge._core does not support loading in subinterpreters",
)


def answers(create) -> list[str]:
    """Returns the output of the imports in a new subinterpreter."""
    reading, writing = os.pipe()
    interpreter = create()
    interpreters.run_string(interpreter, CODE.replace("PIPE", str(writing)))
    interpreters.destroy(interpreter)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        return file.read().splitlines()


def check() -> None:
    for create in KINDS:
        said = answers(create)
        assert len(said) == 3 and set(said) <= set(REFUSED), said


check()
import dlbridge  # noqa: E402

before = dlbridge.counters()
tensor = dlbridge.from_buffer(bytearray(range(6)), "uint8", (2, 3))
for _ in range(10):
    check()
    assert dlbridge.from_dlpack(tensor.__dlpack__(max_version=(1, 0)))[1].tolist() == [3, 4, 5]
del tensor
assert dlbridge.counters() == before, (dlbridge.counters(), before)
print("refused")
