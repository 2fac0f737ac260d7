"""Where the polynomials of functions.def come from: fitted here, to 60 digits, from the functions themselves.

    python3 ir/functions_fit.py            prints each polynomial as it stands in functions.def
    python3 ir/functions_fit.py --check    says whether each does stand there

A polynomial interpolates its function at the Chebyshev nodes of its interval, which is within a small factor of the best one, and the factor is paid
by one more term. What is fitted is the function without its first terms (exp(r) is 1 + r + r^2 q(r)): those stay exact.
"""
import pathlib
import struct
import sys
from decimal import Decimal as D, getcontext

getcontext().prec = 60


def series(first, ratio):
    """The sum of terms, each the one before times ratio(k), k = 1, 2, …"""
    total, term, k = D(0), first, 0
    while abs(term) > D(10) ** -58:
        total += term
        k += 1
        term *= ratio(k)
    return total


def arctangent(x):  # Euler's series
    return series(x / (1 + x * x), lambda k: D(2 * k) / (2 * k + 1) * x * x / (1 + x * x))


PI = 16 * arctangent(D(1) / 5) - 4 * arctangent(D(1) / 239)  # Machin


def erf(x):
    return 2 / PI.sqrt() * (-x * x).exp() * series(x, lambda k: 2 * x * x / (2 * k + 1))


def exp_rest(r):
    """(exp(r) - 1 - r) / r^2"""
    return series(D(1) / 2, lambda k: r / (k + 2))


def exp2_rest(r):
    """(2^r - 1) / r"""
    ln2 = D(2).ln()
    return ln2 * series(D(1), lambda k: r * ln2 / (k + 1))


def log_rest(f):
    """(log(1 + f) - f + f^2 / 2) / f^3"""
    return ((1 + f).ln() - f + f * f / 2) / f**3 if abs(f) > D("1e-10") else D(1) / 3


def atanh_rest(z):
    """(2 atanh(s) / s - 2) / z for z = s^2"""
    total, power, k = D(0), D(1), 0
    while power > D(10) ** -58:
        total += 2 * power / (2 * k + 3)
        power *= z
        k += 1
    return total


def sin_rest(z):
    """(sin(r) - r) / r^3 for z = r^2"""
    return series(D(-1) / 6, lambda k: -z / ((2 * k + 2) * (2 * k + 3)))


def cos_rest(z):
    """(cos(r) - 1 + r^2 / 2) / r^4 for z = r^2"""
    return series(D(1) / 24, lambda k: -z / ((2 * k + 3) * (2 * k + 4)))


def erf_rest(z):
    """erf(x) / x - 1 for z = x^2"""
    x = z.sqrt()
    return erf(x) / x - 1 if x > D("1e-20") else 2 / PI.sqrt() - 1


def log_erfc(a):
    return (1 - erf(a)).ln()


def interpolate(function, low, high, degree):
    """Monomial coefficients of the polynomial through `function` at the Chebyshev nodes of [low, high]."""
    low, high, n = D(low), D(high), degree + 1
    cos = lambda x: 1 - x * x / 2 + x**4 * cos_rest(x * x)
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(PI * (2 * k + 1) / (2 * n)) for k in range(n)]
    differences = [function(x) for x in nodes]
    for order in range(1, n):
        for k in range(n - 1, order - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - order])
    coefficients = [D(0)] * n
    for k in range(n - 1, -1, -1):  # p = p (x - node) + difference
        shifted = [D(0)] + coefficients[:-1]
        coefficients = [s - nodes[k] * c for s, c in zip(shifted, coefficients)]
        coefficients[0] += differences[k]
    return coefficients


def text(value, bits):
    """The shortest decimal that reads back as `value` rounded to f32 or f64."""
    if bits == 64:
        return repr(float(value))
    rounded = struct.unpack("f", struct.pack("f", float(value)))[0]
    for digits in range(1, 10):
        short = f"{rounded:.{digits}g}"
        if struct.pack("f", float(short)) == struct.pack("f", rounded):
            break
    return short if "." in short or "e" in short else short + ".0"


def horner(variable, coefficients, bits):
    result = text(coefficients[-1], bits)
    for c in coefficients[-2::-1]:
        result = f"fma({result}, {variable}, {text(c, bits)})"
    return result


def pairs(variable, square, coefficients, bits):
    """Two terms at a time, in the square of the variable: half as many steps that wait for each other. An even number of coefficients."""
    terms = [f"fma({text(high, bits)}, {variable}, {text(low, bits)})" for low, high in zip(coefficients[::2], coefficients[1::2])]
    result = terms[-1]
    for term in terms[-2::-1]:
        result = f"fma({result}, {square}, {term})"
    return result


def parts(value, bits, n):
    """value as a sum of n numbers, each what the ones before leave: for reductions that subtract them one after another."""
    result = []
    for _ in range(n):
        part = text(value, bits)
        result.append(part)
        value -= D(struct.unpack("f", struct.pack("f", float(part)))[0]) if bits == 32 else D(float(part))
    return ", ".join(result)


HALF_LN2 = D(2).ln() / 2 + D("1e-4")
QUARTER_PI_2 = (PI / 4 + D("1e-4")) ** 2
FITS = {  # name: (function, variable, low, high, degree, bits); "f, z": in pairs, z being the square of f
    "exp f32": (exp_rest, "r", -HALF_LN2, HALF_LN2, 4, 32),
    "exp f64": (exp_rest, "r", -HALF_LN2, HALF_LN2, 9, 64),
    "log f32": (log_rest, "f, z", D("0.7071") - 1, D("1.4143") - 1, 7, 32),
    "log f64": (atanh_rest, "z", 0, D("0.02945"), 6, 64),
    "sin f32": (sin_rest, "z", 0, QUARTER_PI_2, 2, 32),
    "cos f32": (cos_rest, "z", 0, QUARTER_PI_2, 2, 32),
    "sin f64": (sin_rest, "z", 0, QUARTER_PI_2, 5, 64),
    "cos f64": (cos_rest, "z", 0, QUARTER_PI_2, 5, 64),
    "erf f32, small": (erf_rest, "z", 0, D("0.81"), 5, 32),
    "exp2 f32": (exp2_rest, "r", D("-0.5001"), D("0.5001"), 4, 32),
    "erf f32, large": (lambda u: log_erfc(u + D("2.45")) / D(2).ln(), "u", D("-1.55"), D("1.55"), 8, 32),
    "erf f64, small": (erf_rest, "z", 0, 1, 13, 64),
    "erf f64, large": (lambda u: log_erfc(D("3.5") + u * D("2.5")), "u", -1, 1, 26, 64),
}


def constants():
    ln2 = D(2).ln()
    yield "ln 2 f32", parts(ln2, 32, 2)
    yield "ln 2 f64", parts(ln2, 64, 2)
    yield "1 / ln 2", parts(1 / ln2, 64, 1)
    yield "pi / 2 f64", parts(PI / 2, 64, 3)
    yield "2 / pi", parts(2 / PI, 64, 1)


def main():
    table = (pathlib.Path(__file__).parent / "functions.def").read_text()
    table = "".join(table.replace('"', "").split())
    wrong = 0
    for name, (function, variable, low, high, degree, bits) in FITS.items():
        coefficients = interpolate(function, low, high, degree)
        fitted = pairs(*variable.split(", "), coefficients, bits) if ", " in variable else horner(variable, coefficients, bits)
        if "--check" not in sys.argv:
            print(f"{name}: {fitted}")
        elif fitted.replace(" ", "") not in table:
            wrong += 1
            print(f"functions.def lacks the polynomial {name}: {fitted}")
    if "--check" not in sys.argv:
        for name, value in constants():
            print(f"{name}: {value}")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
