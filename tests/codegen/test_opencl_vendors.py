"""OpenCL C that a vendor's compiler is asked for, where it errs on the plain text."""

from mgn.codegen.opencl.opencl import emit
from mgn.dialects.kernel import DEVICES
from tests.support.opencl_fixture import kernel


def test_pocl_is_asked_for_one_lane_at_a_time_where_its_vectors_differ() -> None:
    text = """kernel.func @k(%x : memref<8xf64>) access [read_write]
    global [1, 1, 1] local [1, 1, 1] {
  %zero = arith.constant 0 : index
  %v = vector.load %x[%zero] : memref<8xf64>, vector<8xf64>
  %r = kernel.remf %v, %v : vector<8xf64>
  %s = math.sqrt %r : vector<8xf64>
  %t = math.sin %s : vector<8xf64>
  vector.store %t, %x[%zero] : memref<8xf64>, vector<8xf64>
  kernel.return }"""
    pocl = emit(kernel(text), DEVICES["cpu"].with_figures(vendor="pocl"))
    assert "fmod(a.s7, b.s7)" in pocl and "sin(a.s0)" in pocl and "sqrt(a" not in pocl
    assert ".s7" not in emit(kernel(text), DEVICES["cpu"])


def test_nvidia_is_asked_for_products_in_place_of_quotients_by_powers_of_two() -> None:
    text = """kernel.func @k(%x : memref<4xf32>) access [read_write]
    global [1, 1, 1] local [1, 1, 1] {
  %zero = arith.constant 0 : index
  %v = vector.load %x[%zero] : memref<4xf32>, vector<4xf32>
  %two = arith.constant dense<-2.0> : vector<4xf32>
  %three = arith.constant dense<3.0> : vector<4xf32>
  %h = arith.divf %v, %two : vector<4xf32>
  %t = arith.divf %h, %three : vector<4xf32>
  vector.store %t, %x[%zero] : memref<4xf32>, vector<4xf32>
  kernel.return }"""
    nvidia = emit(kernel(text), DEVICES["nvidia-h200"])
    assert "* (float4)(-0.5f)" in nvidia and "/ (float4)(3.0f)" in nvidia
    assert "/ (float4)(-2.0f)" in emit(kernel(text), DEVICES["cpu"])


def test_nvidia_is_asked_for_no_remainder_of_a_vector() -> None:
    text = """kernel.func @k(%x : memref<4xi32>) access [read_write]
    global [1, 1, 1] local [1, 1, 1] {
  %zero = arith.constant 0 : index
  %v = vector.load %x[%zero] : memref<4xi32>, vector<4xi32>
  %n = arith.constant dense<24> : vector<4xi32>
  %r = arith.remsi %v, %n : vector<4xi32>
  vector.store %r, %x[%zero] : memref<4xi32>, vector<4xi32>
  kernel.return }"""
    assert "%" in emit(kernel(text), DEVICES["cpu"])
    nvidia = emit(kernel(text), DEVICES["nvidia-h200"])
    assert "%" not in nvidia and "/ (int4)(24) * (int4)(24)" in nvidia


def test_pocl_is_asked_for_bits_where_a_vector_of_halves_lies_anywhere() -> None:
    text = """kernel.func @k(%x : memref<24xf16>) access [read_write]
    global [1, 1, 1] local [1, 1, 1] {
  %five = arith.constant 5 : index
  %eight = arith.constant 8 : index
  %v = vector.load %x[%five] : memref<24xf16>, vector<8xf16>
  %w = vector.load %x[%eight] {alignment = 16 : i64} : memref<24xf16>, vector<8xf16>
  %s = arith.addf %v, %w : vector<8xf16>
  vector.store %s, %x[%five] : memref<24xf16>, vector<8xf16>
  kernel.return }"""
    pocl = emit(kernel(text), DEVICES["cpu"].with_figures(vendor="pocl"))
    assert "f16_from_bitsx8(vload8(0, (const __global short*)(x + 5)))" in pocl
    assert "0, (__global short*)(x + 5))" in pocl and "vloada_half8(0, x + 8)" in pocl
    assert "vload_half8(0, x" not in pocl and "_rte(v" not in pocl
    plain = emit(kernel(text), DEVICES["cpu"])
    assert "vload_half8(0, x + 5)" in plain and "0, x + 5);" in plain


def test_nvidia_is_not_told_how_the_end_of_a_loop_came_about() -> None:
    """Its compiler takes some numbers of rounds for multiples of 3."""
    text = """kernel.func @k(%x : memref<8xi32>, %y : memref<8xi32>) access [read, write]
    global [8, 1, 1] local [8, 1, 1] {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %i = kernel.global_id 0
  %left = arith.subi %four, %i : index
  %rounds = arith.minsi %left, %four : index
  scf.for %n = %zero to %END step %one {
    %v = memref.load %x[%n] : memref<8xi32>
    memref.store %v, %y[%n] : memref<8xi32>
  }
  kernel.return }"""
    told = emit(kernel(text.replace("%END", "%four")), DEVICES["nvidia-h200"])
    hidden = emit(kernel(text.replace("%END", "%rounds")), DEVICES["nvidia-h200"])
    assert "< 4;" in told and "asm" not in told
    assert 'asm("mov.b32 %0, %1;"' in hidden and "n < end;" in hidden, hidden
    assert "asm" not in emit(kernel(text.replace("%END", "%rounds")), DEVICES["cpu"])
