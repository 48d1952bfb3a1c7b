#!/usr/bin/env python3
"""The polynomials of offload/random_loop.h: least squares at the nodes of Chebyshev, then rounded to fp32. Needs numpy.

Prints the coefficients, the highest power first, and the largest relative error of what each one serves.
"""

from statistics import NormalDist

import numpy as np


def nodes(low, high, num=2000):
    return (low + high) / 2 + (high - low) / 2 * np.cos((np.arange(num) + 0.5) * np.pi / num)


def fit(name, x, values, degree, weights, exact):
    """`weights` times an error of the polynomial is an error of `exact`, whose relative error is kept small."""
    scale = weights / np.abs(exact)
    powers = np.vander(x, degree + 1)
    coefficients = np.linalg.lstsq(powers * scale[:, None], values * scale, rcond=None)[0].astype(np.float32)
    error = np.max(np.abs((powers @ coefficients.astype(np.float64) - values) * scale))
    print(f"{name}: {', '.join(f'{c:.9g}f' for c in coefficients)}  // {error:.1e}")


y = nodes(np.sqrt(0.5) - 1, np.sqrt(2) - 1)  # log(1 + y) = y - y^2 / 2 + y^3 p(y)
fit("log", y, (np.log1p(y) - y + y**2 / 2) / y**3, 8, np.abs(y) ** 3, np.log1p(y))

x = nodes(0, np.pi / 4)  # sin x = x + x^3 p(x^2), cos x = 1 - x^2 / 2 + x^4 p(x^2)
fit("sin", x**2, (np.sin(x) - x) / x**3, 2, x**3, np.sin(x))
fit("cos", x**2, (np.cos(x) - 1 + x**2 / 2) / x**4, 2, x**4, np.cos(x))


def quantiles(w):
    """|z| / |t| where a normal number is below -|z| with probability p = (1 - |t|) / 2 and w = -log(1 - t^2)."""
    t = np.sqrt(-np.expm1(-w))
    p = np.exp(-w) / (2 * (1 + t))
    return np.array([-NormalDist().inv_cdf(each) for each in p]) / t


w = nodes(1e-6, 5)
fit("middle (of w - 2.5)", w - 2.5, quantiles(w), 8, 1, quantiles(w))
root = nodes(np.sqrt(5), 9.35)  # 1 - t^2 down to the smallest fp32 number that is not subnormal
tail = quantiles(root**2) / root
fit("tail (of 1 / sqrt(w) - 0.25)", 1 / root - 0.25, tail, 9, 1, tail)
