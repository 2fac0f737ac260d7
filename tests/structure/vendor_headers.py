"""The functions, numbers and structures of vendors' libraries that the runtime has by heart are those of the vendors' headers, where these are installed.

Numbers and structures are compared by static assertions in C. Functions have other types than the headers give them, for what is opaque there is void *
here and enumerations are int: in C++, parameter by parameter, sizes and classes are compared, and what pointers lead to where both sides say it.

Looked for in $CUDA_HOME, $CUDA_PATH and /usr/local/cuda; skipped without a header.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])

STRUCTURES = {
    "cublasLt.h": "_Static_assert(sizeof(dt_cublaslt_algorithm) == sizeof(cublasLtMatmulAlgo_t), \"algorithm\");\n"
                  "_Static_assert(sizeof(dt_cublaslt_choice) == sizeof(cublasLtMatmulHeuristicResult_t), \"choice\");\n"
                  "_Static_assert(offsetof(dt_cublaslt_choice, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize), \"bytes\");\n"
                  "_Static_assert(offsetof(dt_cublaslt_choice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state), \"state\");\n",
    "nccl.h": "_Static_assert(sizeof(dt_nccl_id) == sizeof(ncclUniqueId), \"id\");\n"
              "_Static_assert(offsetof(dt_nccl_config, magic) == offsetof(ncclConfig_t, magic), \"magic\");\n"
              "_Static_assert(offsetof(dt_nccl_config, version) == offsetof(ncclConfig_t, version), \"version\");\n"
              "_Static_assert(offsetof(dt_nccl_config, blocking) == offsetof(ncclConfig_t, blocking), \"blocking\");\n",
}

LITERALS = {"nccl.h": r"\b0xcafebeef\b"}  # what has no name there

SAME_FUNCTION = """
#include <cstddef>
#include <cstdint>
#include <type_traits>
template <class T> constexpr bool is_opaque = std::is_void_v<T> || std::is_class_v<T>;
template <class T> constexpr bool is_whole = std::is_integral_v<T> || std::is_enum_v<T>;
template <class A, class B> constexpr bool same() {
    using a = std::remove_cv_t<A>;
    using b = std::remove_cv_t<B>;
    if constexpr (std::is_pointer_v<a> && std::is_pointer_v<b>) {
        using to_a = std::remove_cv_t<std::remove_pointer_t<a>>;
        using to_b = std::remove_cv_t<std::remove_pointer_t<b>>;
        if constexpr (is_opaque<to_a> || is_opaque<to_b>) return is_opaque<to_a> && !std::is_pointer_v<to_b>; /* A, which is ours, says less */
        else return same<to_a, to_b>();
    } else if constexpr (std::is_void_v<a> || std::is_void_v<b>) return std::is_same_v<a, b>;
    else return sizeof(a) == sizeof(b) && is_whole<a> == is_whole<b> && std::is_floating_point_v<a> == std::is_floating_point_v<b> &&
                std::is_pointer_v<a> == std::is_pointer_v<b>;
}
template <class A, class B> struct same_function : std::false_type {};
template <class A, class... P, class B, class... Q> struct same_function<A (*)(P...), B (*)(Q...)> {
    static constexpr bool value = [] {
        if constexpr (sizeof...(P) != sizeof...(Q)) return false;
        else return same<A, B>() && (same<P, Q>() && ...);
    }();
};
"""


class Library:
    def __init__(self, name, ours, theirs, prefix, result=None, internal=False):
        self.name, self.ours, self.theirs = name, ours, theirs
        text = (SOURCE / ours).read_text()
        numbers = rows(text, prefix + "_NUMBERS")
        ours_prefix = "DT_NCCL_" if prefix == "DT_NCCL" else "DT_CUDA_"
        self.numbers = [(ours_prefix + row[0], row[1]) if len(row) == 3 else ("DT_" + row[0], row[0]) for row in numbers]
        self.functions = [row if result is None else [result] + row for row in rows(text, prefix + "_SYMBOLS")]
        self.flags = ["-D__CUDA_API_VERSION_INTERNAL"] if internal else []  # no macros that give one function the name of another
        assert len(self.numbers) > 3 and len(self.functions) > 10, (self.numbers, self.functions)

    def numbers_text(self):
        text = f'#include <stddef.h>\n#include "{self.ours}"\n#include <{self.theirs}>\n{STRUCTURES.get(self.theirs, "")}'
        return text + "".join(f'_Static_assert((int){ours} == (int){theirs}, "{theirs}");\n' for ours, theirs in self.numbers)

    def functions_text(self):
        text = f"#include <{self.theirs}>\n{SAME_FUNCTION}struct dt_cublaslt_algorithm;\nstruct dt_cublaslt_choice;\n" \
               "struct dt_nccl_id { char bytes[128]; };\nstruct dt_nccl_config;\n"
        return text + "".join(f'static_assert(same_function<{result} (*){arguments}, decltype(&{symbol})>::value, "{symbol}");\n'
                              for result, symbol, arguments in self.functions)


def rows(text, table):
    """The rows of an X-table, split into columns: what stands in parentheses is one."""
    body = text.split(f"#define {table}(X)")[1]
    body = re.match(r"(?:.*\\\n)*.*\n", body)[0].replace("\\\n", " ")
    found = []
    for row in re.findall(r"X\(((?:[^()]|\([^()]*\))*)\)", body):
        found.append([column.strip() for column in re.findall(r"\([^()]*\)|[^,()]+", re.sub(r"\s+", " ", row)) if column.strip()])
    return found


def accepts(folder, text, language, flags):
    """What the compiler says against it; empty: nothing."""
    compiler, standard, suffix = {"c": ("cc", "-std=c17", ".c"), "c++": ("c++", "-std=c++17", ".cpp")}[language]
    with tempfile.TemporaryDirectory() as here:
        path = pathlib.Path(here) / f"check{suffix}"
        path.write_text(text)
        done = subprocess.run([compiler, standard, "-fsyntax-only", f"-I{SOURCE}", f"-I{folder}", *flags, path], capture_output=True, text=True)
    return done.stderr if done.returncode != 0 else ""


def check(folder, library):
    """False: there is no such header."""
    if not (folder / library.theirs).exists():
        return False
    assert re.search(LITERALS.get(library.theirs, ""), (folder / library.theirs).read_text(errors="replace")), LITERALS[library.theirs]
    numbers, functions = library.numbers_text(), library.functions_text()
    for text, language in ((numbers, "c"), (functions, "c++")):
        said = accepts(folder, text, language, library.flags)
        assert said == "", said
    name = library.numbers[3][1]  # the comparisons themselves work
    assert accepts(folder, numbers.replace(f"(int){name},", f"(int){name} + 1,"), "c", library.flags) != ""
    for result, symbol, arguments in library.functions:
        if symbol in ("cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuEventElapsedTime", "cublasLtMatrixLayoutCreate", "cudnnBackendSetAttribute", "ncclSend"):
            for wrong in (re.sub(r"uint64_t|int64_t|float|size_t", "int", arguments, count=1), re.sub(r", [^,]*\)$", ")", arguments), arguments[:-1] + ", int)"):
                said = accepts(folder, functions.replace(f"(*){arguments}, decltype(&{symbol})", f"(*){wrong}, decltype(&{symbol})"), "c++", library.flags)
                assert f"{symbol}" in said and wrong != arguments, (symbol, wrong, said)
    return True


def main():
    libraries = [Library("the driver", "runtime/devices/cuda/driver.h", "cuda.h", "DT_CUDA_DRIVER", result="int", internal=True),
                 Library("cuBLASLt", "runtime/devices/cuda/cublaslt.h", "cublasLt.h", "DT_CUBLASLT"),
                 Library("cuDNN", "runtime/devices/cuda/cudnn.h", "cudnn.h", "DT_CUDNN"),
                 Library("NCCL", "runtime/comm/nccl/library.h", "nccl.h", "DT_NCCL")]
    places = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    folder = next((pathlib.Path(p) / "include" for p in places if p and (pathlib.Path(p) / "include").exists()), pathlib.Path("/nowhere"))
    missing = [library.name for library in libraries if not check(folder, library)]
    for name in missing:
        print(f"skipped: the header of {name} is not installed")
    return 77 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
