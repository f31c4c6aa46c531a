"""Prices of what waits on a CPU: for a function before it, for the end of a row."""

import pytest

import mgn
from mgn.dialects.kernel import DEVICES, Device
from mgn.driver.compilation import optimize_graph
from mgn.passes.saturate.extraction.report import SaturateReport

CPU = DEVICES["cpu"].with_figures(bandwidth=1e15, launch_cost=1e-5, function_share=0.25)


def report_of(program: str, device: Device, precision: str = "f32") -> SaturateReport:
    """How a program was saturated for a device."""
    report = optimize_graph(mgn.parse(program).lower(), device, precision=precision).saturation
    assert isinstance(report, SaturateReport)
    return report


def test_a_function_that_waits_for_another_takes_a_cpu_longer() -> None:
    shape = "f32[256, 256]"
    chain = report_of(f"graph g(x: {shape}) {{ return y = sin(tanh(x)) }}", CPU)
    apart = report_of(f"graph g(x: {shape}) {{ return y = sin(x) + tanh(x) }}", CPU)
    assert chain.kernel_count == apart.kernel_count == 1
    assert chain.cost_after > apart.cost_after + 1e-6
    slow = CPU.with_figures(function_share=1.0)
    chain, apart = (
        report_of(f"graph g(x: {shape}) {{ return y = {text} }}", slow).cost_after
        for text in ("sin(tanh(x))", "sin(x) + tanh(x)")
    )
    assert chain == pytest.approx(apart, rel=0.02)


def test_the_largest_of_a_row_costs_a_cpu_more_than_its_sum() -> None:
    largest, total = (
        report_of(f"graph g(x: f32[512, 512]) {{ return y = {name}(x, axis = 1) }}", CPU).cost_after
        for name in ("max_reduce", "sum")
    )
    assert largest - CPU.launch_cost > 2 * (total - CPU.launch_cost)


def test_what_a_row_has_one_of_takes_a_cpu_a_whole_vector() -> None:
    each, plain, vectors = (
        report_of(f"graph g(x: f32[{shape}]) {{ return y = {text} }}", CPU).cost_after
        for shape, text in (
            ("4096, 32", "sigmoid(sum(x, axis = 1))"),
            ("4096, 32", "sum(x, axis = 1)"),
            ("4096", "sigmoid(x)"),
        )
    )
    assert each - plain > 8 * (vectors - CPU.launch_cost)
