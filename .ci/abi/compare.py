"""Compares our dlpack.h with the upstream header that the wheel apache-tvm-ffi carries.

compare.py HEADER      compares all identifiers and declarations, and the sizes, offsets, enumerators
                       and macros as C and C++ compilers compute them
compare.py --upstream  prints the path of upstream's header
"""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LANGUAGES = {
    "C99": (os.environ.get("CC", "cc"), "c", "c99"),
    "C11": (os.environ.get("CC", "cc"), "c", "c11"),
    "C++17": (os.environ.get("CXX", "c++"), "c++", "c++17"),
}


def upstream():
    for file in importlib.metadata.files("apache-tvm-ffi"):
        if file.match("include/dlpack/dlpack.h"):
            return pathlib.Path(file.locate())
    sys.exit("abi: the wheel apache-tvm-ffi carries no dlpack.h")


def tokens(text):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    return re.findall(r"\w+|\"[^\"]*\"|\S", text)


def identifiers(header):
    directives = {"if", "ifdef", "ifndef", "elif", "else", "endif", "defined"}
    return {t for t in tokens(header.read_text()) if re.fullmatch(r"[A-Za-z_]\w*", t)} - directives


def compiler(language, *flags, text=""):
    program, kind, standard = LANGUAGES[language]
    command = [*program.split(), "-x", kind, "-std=" + standard, *flags]
    return subprocess.run([*command, "-"], input=text, check=True, capture_output=True, text=True).stdout


class Header:
    """The macros and types of a header, by name, as a compiler reads them."""

    def __init__(self, path, language):
        self.path, self.language = path, language
        with tempfile.TemporaryDirectory() as empty:  # empty, so that only the header's own declarations remain
            for name in ("stddef.h", "stdint.h"):
                pathlib.Path(empty, name).touch()
            flags = ["-E", "-P", "-nostdinc", "-I" + empty]
            declared = compiler(language, *flags, text=path.read_text())
            defined = compiler(language, *flags, "-dM", text=path.read_text())
            builtin = compiler(language, *flags, "-dM")
        self.macros = dict(self.macro(line) for line in set(defined.splitlines()) - set(builtin.splitlines()))
        self.types = dict(self.types_of(tokens(declared)))

    @staticmethod
    def macro(line):
        _, name, *body = line.split(maxsplit=2)
        return name, "".join(body)

    @staticmethod
    def types_of(stream):
        """Yields the name of each typedef, and all of its tokens."""
        depth, chunk = 0, []
        for token in stream:
            if not chunk and token != "typedef":  # extern "C" { and its end
                continue
            chunk.append(token)
            depth += (token == "{") - (token == "}")
            if token == ";" and depth == 0:
                pointer = re.search(r"typedef int \( \* (\w+)", " ".join(chunk))
                yield pointer.group(1) if pointer else chunk[-2], chunk
                chunk = []

    def declarations(self):
        return {name: " ".join(chunk) for name, chunk in self.types.items()}

    def fields(self, name):
        """Yields the members of a struct, or the enumerators of an enum."""
        chunk = self.types[name]
        if "{" not in chunk:
            return
        body = " ".join(chunk[chunk.index("{") + 1 : len(chunk) - chunk[::-1].index("}") - 1])
        for part in body.split("," if chunk[1] == "enum" else ";"):
            found = re.search(r"\( \* (\w+) \)", part) or re.search(r"(\w+) (?:= .*)?$", part)
            if found:
                yield found.group(1)

    def measured(self):
        """Returns the sizes and values that the compiler computes: lines for each type, member, enumerator and macro with a value."""
        alignof = "alignof" if self.language == "C++17" else "__alignof__"
        lines = []

        def show(name, value):
            lines.append(f'printf("%s = %lld\\n", "{name}", (long long)({value}));')

        for name, chunk in self.types.items():
            show(f"sizeof {name}", f"sizeof({name})")
            show(f"alignof {name}", f"{alignof}({name})")
            for field in self.fields(name):
                if chunk[1] == "enum":
                    show(field, field)
                    continue
                show(f"offsetof {name}.{field}", f"offsetof({name}, {field})")
                show(f"sizeof {name}.{field}", f"sizeof((({name} *)0)->{field})")
        for name, body in self.macros.items():
            if re.search(r"\d", body):
                show(name, name)
                show(f"sizeof {name}", f"sizeof({name})")
        program = "#include <dlpack.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
        with tempfile.TemporaryDirectory() as work:
            compiler(self.language, "-I" + str(self.path.parent), "-o", work + "/probe", text=program)
            return subprocess.run([work + "/probe"], check=True, capture_output=True, text=True).stdout.splitlines()


def differences(what, ours, theirs):
    """Yields the names that only one side has, or whose values differ."""
    for name in sorted(set(ours) | set(theirs)):
        one, other = ours.get(name), theirs.get(name)
        if one != other:
            yield f"{what} {name}: {one!r} here, {other!r} upstream"


def compare(path, reference):
    yield from (f"identifier {name}: only here" for name in sorted(identifiers(path) - identifiers(reference)))
    yield from (f"identifier {name}: only upstream" for name in sorted(identifiers(reference) - identifiers(path)))
    for language in LANGUAGES:
        ours, theirs = Header(path, language), Header(reference, language)
        yield from differences(f"{language}: macro", ours.macros, theirs.macros)
        yield from differences(f"{language}: type", ours.declarations(), theirs.declarations())
        measures, measured = ours.measured(), theirs.measured()
        yield from (f"{language}: {line}: only here" for line in measures if line not in measured)
        yield from (f"{language}: {line}: only upstream" for line in measured if line not in measures)
        if len(ours.types) < 15 or len(measures) < 134:  # the numbers of version 1.3
            yield f"{language}: only {len(ours.types)} types and {len(measures)} measures were found"
        print(f"abi: {language}: {len(ours.types)} types, {len(ours.macros)} macros, {len(measures)} measures")


def main(arguments):
    if arguments == ["--upstream"]:
        print(upstream())
        return
    found = list(compare(pathlib.Path(arguments[0]), upstream()))
    if found:
        sys.exit("\n".join(found))
    print(f"abi: {arguments[0]} agrees with upstream's")


if __name__ == "__main__":
    main(sys.argv[1:])
