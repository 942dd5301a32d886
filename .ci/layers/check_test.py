"""Plants an error of each kind, which check.py must report."""

import pathlib
import tempfile
import unittest

import check


class Planted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def c(self, files):
        self.write({f"folder/{name}": text for name, text in files.items()})
        return check.circles(check.uses_of_c(self.root, ["folder"], self.root / "work"))

    def python(self, files):
        self.write({f"package/{name}": text for name, text in files.items()})
        return check.circles(check.uses_of_python(self.root / "package"))

    def test_a_circle_of_c_files(self):
        a, b, c = ("int a(void), b(void), c(void);\nint %s(void) { return %s; }\n" % pair for pair in [("a", "b()"), ("b", "c()"), ("c", "a()")])
        end = "int c(void) { int a = 1; return a; }\n"  # a local variable with the name of a function
        self.assertEqual(self.c({"a.c": a, "b.c": b, "c.c": end}), [])
        found = self.c({"a.c": a, "b.c": b, "c.c": c, "d.c": "int a(void);\nint d(void) { return a(); }\n"})
        self.assertEqual(len(found), 3)
        self.assertIn("folder/c.c and folder/a.c are in a circle: folder/c.c uses a of folder/a.c", found)

    def test_a_circle_by_an_inline_function_of_a_header(self):
        header = "int a(void), b(void);\nstatic inline int twice(void) { return 2 * a(); }\n"
        found = self.c({"h.h": header, "a.c": '#include "h.h"\nint a(void) { return b(); }\n', "b.c": '#include "h.h"\nint b(void) { return twice(); }\n'})
        self.assertEqual(len(found), 2)

    def test_a_circle_of_python_modules(self):
        self.assertEqual(self.python({"__init__.py": "", "a.py": "from . import b\n", "b.py": "from ._core import x\n", "_core.pyi": ""}), [])
        for back in (
            "from .a import x\n",
            "from . import a\n",
            "import package.a\n",
            "from package import a\n",
            "def later():\n    from . import a\n",
            "if not TYPE_CHECKING:\n    from . import a\n",
            "from . import name\n",  # by way of __init__
        ):
            with self.subTest(back):
                found = self.python({"__init__.py": "from .a import name\n", "a.py": "from .b import x\n", "b.py": back})
                self.assertIn("a and b are in a circle of imports", found)
        self.assertEqual(self.python({"a.py": "from . import b\n", "b.py": "if TYPE_CHECKING:\n    from . import a\n"}), [])

    def test_an_upward_import(self):
        imports = {name: set() for name in check.ALLOWED} | {"bridge/new": {"bridge/elements", "tens/strictjson"}}
        self.assertEqual(check.upward(imports | {"bridge/capi": {"bridge/new"}}), [])
        for name, path in [("tens", "bridge"), ("dlpack/layout", "dlpack"), ("bridge/new", "bridge/capi"), ("bridge/zeromq", "bridge/new")]:
            self.assertEqual(check.upward(imports | {name: {path}}), [f"{name} must not import {path}"])
        (error,) = check.upward(imports | {"dlpack/new": set()})
        self.assertIn("dlpack/new is not in the table", error)
        (error,) = check.upward({name: paths for name, paths in imports.items() if name != "bridge/shm"})
        self.assertIn("does not exist", error)

    def test_a_user_of_core_h(self):
        include = '// #include "core.h"\nimport "C"\n'
        self.write({"dlpack/internal/core/copy.go": include, "bridge/new/new.go": "package new\n", "bridge/python/src/a.h": "#include <core.h>\n"})
        self.assertEqual(check.users_of_core(self.root), [])
        self.write({"bridge/new/new.go": include, "bridge/new/new.c": "#include <core.h>\n"})
        self.assertEqual([error.split()[0] for error in check.users_of_core(self.root)], ["bridge/new/new.c", "bridge/new/new.go"])


if __name__ == "__main__":
    unittest.main()
