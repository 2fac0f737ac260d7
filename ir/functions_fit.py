"""Where the polynomials of functions.def come from: fitted here, to 60 digits, from the functions themselves.

    python3 ir/functions_fit.py            prints each polynomial as it stands in functions.def
    python3 ir/functions_fit.py --check    says whether each does stand there

Most polynomials interpolate their function at the Chebyshev nodes of their interval, which is within a small factor of the best one, and the factor
is paid by one more term. Where a term counts, the greatest error is made least by Lawson's iteration: least squares whose weights grow where the error
is large. That serves quotients of polynomials too, whose denominator is taken from the turn before (C. L. Lawson 1961; H. L. Loeb 1957).

What is fitted is the function without its first terms (exp(r) is 1 + r + r^2 q(r)): those stay exact.
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


def erf_ratio(z):
    """erf(x) / x for z = x^2"""
    return 1 + erf_rest(z)


def tanh_ratio(z):
    """tanh(x) / x for z = x^2"""
    x = z.sqrt()
    power = (2 * x).exp()
    return (power - 1) / (power + 1) / x if x > D("1e-20") else D(1)


def log_erfc(a):
    return (1 - erf(a)).ln()


def chebyshev_nodes(low, high, n):
    cos = lambda x: 1 - x * x / 2 + x**4 * cos_rest(x * x)
    return [(low + high) / 2 + (high - low) / 2 * cos(PI * (2 * k + 1) / (2 * n)) for k in range(n)]


def interpolate(function, low, high, degree):
    """Monomial coefficients of the polynomial through `function` at the Chebyshev nodes of [low, high]."""
    low, high, n = D(low), D(high), degree + 1
    nodes = chebyshev_nodes(low, high, n)
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


def solve(rows):
    """The solution of linear equations, each a list of coefficients and the right side."""
    n = len(rows)
    for column in range(n):
        pivot = max(range(column, n), key=lambda k: abs(rows[k][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [v / rows[column][column] for v in rows[column]]
        for k in range(n):
            if k != column:
                rows[k] = [v - rows[k][column] * w for v, w in zip(rows[k], rows[column])]
    return [row[n] for row in rows]


def minimax(function, low, high, degree, below=0, matters=lambda x: 1):
    """Coefficients of a polynomial, and of one with first coefficient 1 that it is divided by, so that the greatest relative error is least; an error
    at x counts `matters` of it."""
    n_points, n_turns = 60, 30
    nodes = chebyshev_nodes(D(low), D(high), n_points)
    powers = [[D(1)] for _ in nodes]
    for x, row in zip(nodes, powers):
        for _ in range(max(degree, below)):
            row.append(row[-1] * x)
    values = [function(x) for x in nodes]
    counts = [D(matters(x)) for x in nodes]
    terms = [[p / y for p in row[: degree + 1]] + [-p for p in row[1 : below + 1]] for row, y in zip(powers, values)]
    weights, divisors, best = [D(1)] * n_points, [D(1)] * n_points, None
    for turn in range(n_turns):
        squares = [w * (c / d) ** 2 for w, c, d in zip(weights, counts, divisors)]
        weighted = [[s * t for t in row] for s, row in zip(squares, terms)]
        columns, weighted = list(zip(*terms)), list(zip(*weighted))
        found = solve([[sum(map(D.__mul__, w, c)) for c in columns] + [sum(w)] for w in weighted])
        divisors = [1 + sum(map(D.__mul__, found[degree + 1 :], row[1:])) for row in powers]
        errors = [c * abs(sum(map(D.__mul__, found, row[: degree + 1])) / d / y - 1) for c, row, d, y in zip(counts, powers, divisors, values)]
        worst = max(errors)
        if best is None or worst < best[0]:
            best = worst, found
        if turn > 4:  # the divisors have settled
            weights = [w * (e / worst + D("0.001")) for w, e in zip(weights, errors)]
            mean = sum(weights) / n_points
            weights = [w / mean for w in weights]
    return best[1][: degree + 1], [D(1)] + best[1][degree + 1 :]


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
    """Two terms at a time, in the square of the variable: half as many steps that wait for each other."""
    terms = [f"fma({text(high, bits)}, {variable}, {text(low, bits)})" for low, high in zip(coefficients[::2], coefficients[1::2])]
    if len(coefficients) % 2:
        terms.append(text(coefficients[-1], bits))
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


def log_matters(f):
    """How much of log(1 + f) its rest is."""
    return f * f * log_rest(f) / (1 - f / 2 + f * f * log_rest(f))


def fits():
    """Each polynomial's name and text as it stands in functions.def."""
    for name, (function, variable, low, high, degree, bits) in FITS.items():
        coefficients = interpolate(function, low, high, degree)
        yield name, horner(variable, coefficients, bits)
    yield "log f32", pairs("f", "z", minimax(log_rest, D("0.7071") - 1, D("1.4143") - 1, 6, matters=log_matters)[0], 32)
    for name, (function, high, degree, below, scale) in QUOTIENTS.items():
        upper, lower = minimax(function, 0, D(high) ** 2, degree, below)
        for half, coefficients in ("above", upper), ("below", lower):
            yield f"{name}, {half}", horner("z", [c * D(scale) for c in coefficients], 32)


FITS = {  # name: (function, variable, low, high, degree, bits)
    "exp f32": (exp_rest, "r", D("-1e-4"), D(2).ln() + D("1e-4"), 4, 32),
    "expm1 f32": (exp_rest, "r", -HALF_LN2, HALF_LN2, 4, 32),
    "exp f64": (exp_rest, "r", -HALF_LN2, HALF_LN2, 9, 64),
    "log f64": (atanh_rest, "z", 0, D("0.02945"), 6, 64),
    "sin f32": (sin_rest, "z", 0, QUARTER_PI_2, 2, 32),
    "cos f32": (cos_rest, "z", 0, QUARTER_PI_2, 2, 32),
    "sin f64": (sin_rest, "z", 0, QUARTER_PI_2, 5, 64),
    "cos f64": (cos_rest, "z", 0, QUARTER_PI_2, 5, 64),
    "erf f64, small": (erf_rest, "z", 0, 1, 13, 64),
    "erf f64, large": (lambda u: log_erfc(D("3.5") + u * D("2.5")), "u", -1, 1, 26, 64),
}
QUOTIENTS = {  # name, with z = x^2: (function, greatest x, degrees, what both are multiplied by: of 400 tried, one whose roundings do little)
    "tanh f32": (tanh_ratio, "9.02", 4, 4, "1.39"),
    "erf f32": (erf_ratio, "3.92", 5, 5, "1.4225"),
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
    for name, fitted in fits():
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
