// RUN: mgn-opt -p simplify,simplify --print-ir-after-change %s 2>&1 | filecheck %s
// RUN: mgn-opt -p simplify --mlir-print-ir-before-all %s 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: mgn-opt -p simplify --mlir-timing %s 2>&1 | filecheck %s --check-prefix=TIMING

// The second run of the pass changes nothing.
// CHECK: IR Dump After simplify
// CHECK-NOT: mgn.neg
// CHECK-NOT: IR Dump After simplify

// BEFORE: IR Dump Before simplify
// BEFORE: mgn.neg

// TIMING: seconds   share  step
// TIMING: parse
// TIMING: simplify
// TIMING: total

mgn.graph @g("x" = %x : tensor<4xf32>) -> ("y" : tensor<4xf32>) {
  %unused = mgn.neg(%x) : tensor<4xf32>
  %y = mgn.relu(%x) : tensor<4xf32>
  mgn.return %y : tensor<4xf32>
}
